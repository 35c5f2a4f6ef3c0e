"""`cni-harness add`: new pods with networks."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import (
    EXECUTABLE,
    Settings,
    complete_network,
    global_options,
    namespace_option,
    needs_root,
    pass_settings,
    say,
)
from harness.cli.parallel import for_each_pod, jobs_option
from harness.output import emit, say_changes, seconds
from harness.table import Table

if TYPE_CHECKING:
    from harness.runtime.node_snapshot import StateBefore
    from harness.runtime.pod_lifecycle import AddedPod
    from harness.runtime.pod_plan import NetworkPlan

__all__ = ["command"]

_PREPARATION_S = 60.0
_HEADINGS = ("POD", "INTERFACE", "ADDRESS", "GATEWAY", "BRIDGE", "TIME")


@click.command("add")
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
@jobs_option
@global_options()
@pass_settings
def command(
    settings: Settings,
    *,
    pods: tuple[str, ...],
    networks: tuple[str, ...],
    namespace: str,
    ifname: str,
    ports: tuple[str, ...],
    ips: tuple[str, ...],
    mac: str | None,
    cni_args: tuple[str, ...],
    capabilities: tuple[str, ...],
    preparation: Path | None,
    diff: bool,
    exist_ok: bool,
    jobs: int,
) -> int:
    """Make pods: a network namespace each, joined to networks.

    If a pod fails, all of it is removed. The other pods are still made, and the exit code is 1.
    """
    from harness.cli.defaults import select_networks
    from harness.cli.plan import Wishes, plan_networks
    from harness.runtime.kubernetes import check_pod
    from harness.runtime.pod_view import pod_document

    settings.announces = True
    needs_root("add", "makes network namespaces")
    names_once = list(dict.fromkeys(pods))
    if len(names_once) > 1 and (ips or mac is not None or ports):
        raise click.UsageError("--ip, --mac and -p are for one pod: two cannot have the same")
    wanted = [(namespace, name) for name in names_once]
    for each in wanted:
        check_pod(*each)
    plans = plan_networks(select_networks(settings, networks), Wishes(ifname, ports, ips, mac, cni_args, capabilities))
    if preparation is not None:
        _prepare(settings, preparation)
    before = _state_before(settings, wanted) if diff else None
    added = _add(settings, wanted, plans, exist_ok=exist_ok, jobs=jobs)
    document: dict[str, object] = {"pods": [pod_document(each.pod) | {"seconds": each.seconds} for each in added]}
    made = before.made([each.pod for each in added]) if before is not None else []
    if before is not None:
        document["diff"] = [difference.to_document() for difference in made]
    emit(settings.output, document, Table(_HEADINGS, [row for each in added for row in _rows(each)]))
    if settings.is_table:
        say_changes([difference.in_words() for difference in made])
    return 0 if len(added) == len(wanted) else 1


def _prepare(settings: Settings, program: Path) -> None:
    from harness.conformance.preparation import prepare_node

    node = settings.open_node()
    with node.in_use():
        prepare_node(program, node, _PREPARATION_S)


def _state_before(settings: Settings, wanted: list[tuple[str, str]]) -> "StateBefore":
    from harness.runtime.node_snapshot import StateBefore

    node = settings.open_node()
    with node.in_use():
        return StateBefore(node, [pod for each in wanted if (pod := node.pods.read(*each)) is not None], warn=say)


def _add(
    settings: Settings, pods: list[tuple[str, str]], plans: list["NetworkPlan"], *, exist_ok: bool, jobs: int
) -> list["AddedPod"]:
    from harness.cli.defaults import plugin_folders, plugin_types
    from harness.cli.trace import trace_executions
    from harness.runtime.pod_lifecycle import Runtime
    from harness.runtime.pod_plan import PodPlan

    node = settings.open_node(threads=jobs)
    types = plugin_types(plan.network for plan in plans)
    with node.in_use(), plugin_folders(settings, types) as bin_dirs:
        runtime = Runtime(node, bin_dirs=bin_dirs, observe=trace_executions(settings.verbose), warn=say)

        def add(namespace: str, name: str) -> "AddedPod":
            return runtime.add(PodPlan(namespace, name, plans, bin_dirs), exist_ok=exist_ok)

        return [added for _, added in for_each_pod(pods, add, jobs=jobs, label="Adding pods", done="Ready")]


def _rows(added: "AddedPod") -> list[list[str]]:
    from harness.runtime.pod_view import addresses, gateways, host_links, interface

    time = "there already" if added.seconds is None else seconds(added.seconds)
    return [
        [
            added.pod.name,
            interface(network),
            addresses(network),
            gateways(network),
            next(iter(host_links(network)), ""),
            time,
        ]
        for network in added.pod.networks
    ]
