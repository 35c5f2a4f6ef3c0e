"""`cni-harness disconnect`: a pod leaves one of its networks."""

import click

from harness.cli.node_pods import node_pod
from harness.cli.options import Settings, complete_network, complete_pod, namespace_option, verb
from harness.cli.traced_verb import record_option
from harness.output import TextTable


@verb(
    "disconnect",
    examples={
        "disconnect pod1 --network bridge-ipv4": "Take pod1 off a network",
        "disconnect pod1 --network bridge-l2 --ifname lan0": "Name the interface",
    },
    root="changes a network namespace",
)
@click.argument("pod", shell_complete=complete_pod)
@click.option("--network", required=True, metavar="NAME", shell_complete=complete_network, help="The network to leave.")
@namespace_option
@click.option("--ifname", default="", metavar="NAME", help="Interface in the pod, if the network has several of them.")
@record_option
def command(settings: Settings, *, pod: str, network: str, namespace: str, ifname: str) -> None:
    """Take a pod off a network while its processes run, as `docker network disconnect` does.

    If a plugin fails, the network stays on the pod's record, and this can be repeated.
    """
    leaving = node_pod(settings, namespace, pod)
    node = settings.existing_node()
    with node.in_use():
        left = settings.runtime(node, settings.bin_dirs).disconnect(leaving, network, ifname)
    document = {"name": left.name, "ifname": left.ifname}
    row = [pod, left.name, left.ifname]
    settings.emit(
        {"pod": pod, "namespace": namespace, "disconnected": document},
        TextTable(("POD", "DISCONNECTED", "INTERFACE"), [row]),
    )
