"""`cni-harness add`: new pods with networks."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from harness.cli.option_types import EXECUTABLE
from harness.cli.options import Settings, complete_network, namespace_option, verb
from harness.cli.parallel import for_each_pod, jobs_option
from harness.cli.traced_verb import record_option
from harness.output import TextTable, say, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.cli.plan import AskedOfAdd
    from harness.runtime.pod_lifecycle import AddedPod

_PREPARATION_S = 60.0
_HEADINGS = ("POD", "INTERFACE", "ADDRESS", "GATEWAY", "BRIDGE", "TIME")


@verb(
    "add",
    examples={
        "add pod1": "Join pod1 to the first network",
        "add pod2 --network cni-harness --ip 10.86.0.80 --diff": "Ask for an address, and show all changes",
        "add pod3 --network cni-harness --network bridge-ipv4": "Join a pod to two networks: eth0 and net1",
    },
    root="makes network namespaces",
)
@click.argument("pods", nargs=-1, required=True, metavar="POD...")
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_network,
    help="A network to join; may be repeated.  [default: the first list in order of file name, as containerd does]",
)
@namespace_option
@click.option(
    "--ifname",
    envvar="CNI_IFNAME",
    default="eth0",
    show_default=True,
    show_envvar=True,
    help="Interface on the first network; those on further ones are net1, net2 and so on.",
)
@click.option(
    "-p",
    "--publish",
    "ports",
    multiple=True,
    metavar="[IP:]HOST:POD[/PROTO]",
    help="Map a port of the node (capability portMappings) on the first network; may be repeated.",
)
@click.option(
    "--ip",
    "ips",
    multiple=True,
    metavar="ADDRESS",
    help="Ask for this address on the first network; may be repeated, once a family.",
)
@click.option("--mac", metavar="MAC", help="Ask for this hardware address on the first network.")
@click.option(
    "--arg", "cni_args", multiple=True, metavar="K=V", help="A pair for CNI_ARGS, beside those of CNI_ARGS itself."
)
@click.option(
    "--cap",
    "capabilities",
    multiple=True,
    metavar="NAME=JSON",
    help="An argument for plugins with this capability, beside those of CAP_ARGS.",
)
@click.option(
    "--prepare",
    "preparation",
    type=EXECUTABLE,
    metavar="FILE",
    help="An executable that prepares the node for the plugins; it runs there as root, before the pods are made.",
)
@click.option("--diff", is_flag=True, help="Show what the plugins did: the node and the pods, before and after.")
@click.option("--exist-ok", is_flag=True, help="A pod that is there already is left as it is, and no error.")
@record_option
@jobs_option
def command(
    settings: Settings,
    *,
    pods: tuple[str, ...],
    networks: tuple[str, ...],
    namespace: str,
    preparation: Path | None,
    diff: bool,
    exist_ok: bool,
    jobs: int,
    **asked: "Unpack[AskedOfAdd]",
) -> int:
    """Make pods: a network namespace each, joined to networks.

    If a pod fails, all of it is removed. The other pods are still made, and the exit code is 1.
    """
    from harness.cli.defaults import plugin_folders, plugin_types, select_networks
    from harness.cli.plan import AddOptions, plan_networks
    from harness.conformance.engine.node_setup import prepare_node
    from harness.runtime.kubernetes import check_pod
    from harness.runtime.pod_view import pod_document
    from harness.runtime.unserved_requests import unserved_requests

    settings.announces = True
    names_once = list(dict.fromkeys(pods))
    options = AddOptions(**asked)
    if len(names_once) > 1 and (options.ips or options.mac is not None or options.ports):
        raise click.UsageError("--ip, --mac and -p are for one pod: two cannot have the same")
    wanted = [(namespace, name) for name in names_once]
    for each in wanted:
        check_pod(*each)
    plans = plan_networks(select_networks(settings, networks), options)
    for request in unserved_requests(plan.to_network() for plan in plans):
        say(f"Warning: {request.in_words()}")
    node = settings.open_node(threads=jobs)
    with node.in_use():
        if preparation is not None:
            prepare_node(preparation, node, _PREPARATION_S)
        before = None
        if diff:
            from harness.runtime.node_snapshot import StateBefore

            before = StateBefore(node, wanted, warn=say)
        with plugin_folders(settings, plugin_types(plan.network for plan in plans)) as bin_dirs:
            runtime = settings.runtime(node, bin_dirs)
            add = partial(runtime.add, networks=plans, exist_ok=exist_ok)
            added = [pod for _, pod in for_each_pod(wanted, add, jobs=jobs, label="Adding pods", done="Ready")]
        made = before.differences([each.pod for each in added]) if before is not None else None
    document = {"pods": [pod_document(each.pod) | {"seconds": each.seconds} for each in added]}
    settings.emit(document, TextTable(_HEADINGS, [row for each in added for row in _rows(each)]), made)
    return 0 if len(added) == len(wanted) else 1


def _rows(added: "AddedPod") -> "Iterator[list[str]]":
    from harness.runtime.pod_view import addresses, gateways, host_links, interface

    time = "there already" if added.seconds is None else seconds(added.seconds)
    for network in added.pod.networks:
        bridge = next(iter(host_links(network)), "")
        yield [added.pod.name, interface(network), addresses(network), gateways(network), bridge, time]
