"""`cni-harness list`: the pods of a node."""

import click

from harness.cli.node_pods import node_pods
from harness.cli.options import Settings, verb
from harness.output import TextTable, age, say


@verb(
    "list",
    examples={
        "list": "List the pods",
        "list -n shop -o wide": "List those of a namespace, with whole container IDs",
    },
)
@click.option("-n", "--namespace", metavar="NS", help="Only those in this Kubernetes namespace.")
def command(settings: Settings, *, namespace: str | None) -> None:
    """List all pods with their networks, also those that a crash left incomplete: `del` removes them, too."""
    from harness.runtime.pod_view import addresses, pod_document, pod_state

    node = settings.open_node()
    pods = [pod for pod in node_pods(settings) if namespace in {None, pod.namespace}]
    is_wide = settings.output == "wide"
    rows = [
        [
            pod.name,
            pod.namespace,
            pod_state(pod),
            ", ".join(network.name for network in pod.networks),
            ", ".join(filter(None, map(addresses, pod.networks))),
            pod.container_id,
            pod.created if is_wide else age(pod.created),
        ]
        for pod in pods
    ]
    headings = ("POD", "NAMESPACE", "STATE", "NETWORKS", "ADDRESSES", "CONTAINER ID", "CREATED" if is_wide else "AGE")
    if not pods:
        say("No pods" if node.exists() else f"No pods: there is no node {node.name}")
    settings.emit({"pods": [pod_document(pod) for pod in pods]}, TextTable(headings, rows, "STATE"))
