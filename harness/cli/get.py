"""`cni-harness get`: the pods of the node, as kubectl shows them."""

import click

from harness.cli.kubectl import POD_HEADINGS, listed_pods, pod_row
from harness.cli.manifest_pods import every_pod
from harness.cli.options import Settings, complete_pod, verb
from harness.output import TextTable, say


@verb(
    "get",
    examples={
        "get pods": "List all pods",
        "get pod web -o yaml": "Print a pod with its status",
    },
    root="reads the records of pods",
)
@click.argument("names", nargs=-1, metavar="[pods [POD...]]", callback=listed_pods, shell_complete=complete_pod)
@click.option("-n", "--namespace", default="", metavar="NS", help="Only pods of this namespace.  [default: all]")
def command(settings: Settings, *, names: tuple[str, ...], namespace: str) -> int:
    """List all pods, as `kubectl get pods` does; `pod NAME -o yaml` prints one as a Pod.

    If no `cni-harness kubelet` runs, the states of the containers are looked up in the runtime, and no container is
    restarted or probed.
    """
    from harness.kubelet.server import pod_document

    shown = [
        (pod, status)
        for pod, status in every_pod(settings)
        if (not namespace or pod.metadata.namespace == namespace) and (not names or pod.metadata.name in names)
    ]
    if missing := set(names) - {pod.metadata.name for pod, _ in shown}:
        raise click.ClickException("; ".join(f'pods "{name}" not found' for name in sorted(missing)))
    if not shown and settings.is_table:
        say(f"No resources found in {namespace} namespace." if namespace else "No resources found")
    documents = [pod_document(pod, status) for pod, status in shown]
    a_list = {"apiVersion": "v1", "items": documents, "kind": "List", "metadata": {"resourceVersion": ""}}
    is_one = len(names) == len(documents) == 1
    settings.emit(
        documents[0] if is_one else a_list,
        TextTable(POD_HEADINGS, [pod_row(pod, status) for pod, status in shown], "STATUS"),
    )
    return 0
