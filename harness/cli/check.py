"""`cni-harness check`: are pods' networks as their ADD left them?"""

import click

from harness.cli.node_pods import find_pod, node_pods
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.cli.parallel import for_each_pod, jobs_option
from harness.output import TextTable


@verb(
    "check",
    examples={
        "check": "CHECK all pods",
        "check pod1 -o json": "CHECK one pod, for a program",
    },
    root="looks into network namespaces",
)
@click.argument("pods", nargs=-1, metavar="[POD]...", shell_complete=complete_pod)
@namespace_option
@jobs_option
def command(settings: Settings, *, pods: tuple[str, ...], namespace: str, jobs: int) -> int:
    """CHECK pods, all of the node's without POD. The exit code is 1 if anything is wrong.

    Plugins are looked for in --bin-dir, then in the folders that the pod's ADD used.
    """
    from harness.runtime.cached_pods import CachedPod
    from harness.runtime.pod_lifecycle import PodError
    from harness.runtime.pod_record import PodNetwork
    from harness.runtime.pod_view import interface

    node = settings.existing_node(threads=jobs)
    wanted = [(namespace, name) for name in dict.fromkeys(pods)]
    if not wanted:
        joined = {(pod.namespace, pod.name) for pod in node_pods(settings, lambda _: None) if pod.networks}
        wanted = sorted(joined | set(node.pods.names()))
    with node.in_use():
        of_pods = settings.runtime(node, settings.bin_dirs).networks

        def check(namespace: str, name: str) -> list[tuple[PodNetwork, str]]:
            pod = find_pod(settings, namespace, name)
            if pod is None:
                raise PodError("there is no such pod")
            if isinstance(pod, CachedPod):
                return of_pods.check(pod)
            with node.pods.claimed_again(pod) as present:
                return of_pods.check(present or pod)

        done = for_each_pod(wanted, check, jobs=jobs, label="Checking pods", done="Checked")
    document, rows = [], []
    for (where, name), found in done:
        networks = [{"name": network.name, "ifname": network.ifname, "error": text} for network, text in found]
        document.append({"name": name, "namespace": where, "networks": networks})
        rows += [[name, network.name, interface(network), text or "ok"] for network, text in found]
    settings.emit({"pods": document}, TextTable(("POD", "NETWORK", "INTERFACE", "CHECK"), rows, "CHECK"))
    wrong = [text for _, found in done for _, text in found if text]
    return 1 if wrong or len(done) < len(wanted) else 0
