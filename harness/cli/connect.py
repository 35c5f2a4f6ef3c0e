"""`cni-harness connect`: one more network for a pod that exists."""

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import click

from harness.cli.node_pods import node_pod
from harness.cli.options import Settings, complete_network, complete_pod, namespace_option, verb
from harness.cli.traced_verb import record_option
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.cli.plan import Asked

_HEADINGS = ("POD", "NETWORK", "INTERFACE", "ADDRESS", "GATEWAY")


@verb(
    "connect",
    examples={
        "connect pod1 --network bridge-ipv4": "Give pod1 a second interface, net1",
        "connect pod1 --network bridge-l2 --ifname lan0": "Choose the interface's name",
    },
    root="changes a network namespace",
)
@click.argument("pod", shell_complete=complete_pod)
@click.option("--network", required=True, metavar="NAME", shell_complete=complete_network, help="The network to join.")
@namespace_option
@click.option("--ifname", metavar="NAME", help="Interface in the pod.  [default: the first free one of net1, net2 ...]")
@click.option("--ip", "ips", multiple=True, metavar="ADDRESS", help="Ask for this address; may be repeated.")
@click.option("--mac", metavar="MAC", help="Ask for this hardware address.")
@click.option("--arg", "cni_args", multiple=True, metavar="K=V", help="A pair for CNI_ARGS.")
@click.option("--cap", "capabilities", multiple=True, metavar="NAME=JSON", help="An argument for a capability.")
@record_option
def command(
    settings: Settings,
    *,
    pod: str,
    network: str,
    namespace: str,
    ifname: str | None,
    **asked: "Unpack[Asked]",
) -> None:
    """Join a pod to one more network while its processes run, as `docker network connect` does.

    If that fails, the pod is as before. `disconnect` takes it off the network, and so does its end.
    """
    from harness.cli.defaults import plugin_folders, plugin_types, select_networks
    from harness.cli.plan import AddOptions, plan_networks
    from harness.runtime.pod_view import addresses, gateways, interface
    from harness.runtime.unserved_requests import unserved_requests

    settings.announces = True
    joining = node_pod(settings, namespace, pod)
    options = AddOptions("net1" if ifname is None else ifname, **asked)
    [plan] = plan_networks(select_networks(settings, [network]), options)
    for request in unserved_requests([plan.to_network()]):
        say(f"Warning: {request.in_words()}")
    node = settings.existing_node()
    with node.in_use(), plugin_folders(settings, plugin_types([plan.network])) as bin_dirs:
        made = settings.runtime(node, bin_dirs).connect(joining, replace(plan, ifname=ifname or ""))
    document = {"name": made.name, "ifname": made.ifname, "result": made.result}
    row = [pod, made.name, interface(made) or made.ifname, addresses(made), gateways(made)]
    settings.emit({"pod": pod, "namespace": namespace, "connected": document}, TextTable(_HEADINGS, [row]))
