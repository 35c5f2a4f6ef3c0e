"""`cni-harness get`: the pods of manifests."""

import click

from harness.cli.kubelet_node import complete_manifest_pod
from harness.cli.kubelet_tables import POD_HEADINGS, pod_row
from harness.cli.options import Settings, needs_root, verb
from harness.cli.present_pods import pods_at_present
from harness.table import Table

__all__ = ["command"]


@verb("get")
@click.argument("kind", type=click.Choice(["pods", "pod", "po"]), default="pods")
@click.argument("names", nargs=-1, metavar="[POD...]", shell_complete=complete_manifest_pod)
@click.option("-n", "--namespace", default="", metavar="NS", help="Only pods of this namespace.  [default: all]")
def command(settings: Settings, *, kind: str, names: tuple[str, ...], namespace: str) -> int:
    """List the pods of manifests, as `kubectl get pods` does.

    If no `cni-harness kubelet` runs, the states of the containers are looked up in the runtime, and no container is
    restarted or probed.
    """
    from harness.kubelet.server import pod_document

    del kind
    needs_root("get", "reads the records of pods")
    shown = [
        (pod, status)
        for pod, status in pods_at_present(settings)
        if (not namespace or pod.metadata.namespace == namespace) and (not names or pod.metadata.name in names)
    ]
    if missing := set(names) - {pod.metadata.name for pod, _ in shown}:
        raise click.ClickException(f'pods "{", ".join(sorted(missing))}" not found')
    settings.emit(
        {"pods": [pod_document(pod, status) for pod, status in shown]},
        Table(POD_HEADINGS, [pod_row(pod, status) for pod, status in shown], "STATUS"),
    )
    return 0
