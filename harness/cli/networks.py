"""`cni-harness networks`: the available network lists, and the addresses of one."""

from typing import Any

import click

from harness.cli.options import Settings, complete_network, needs_root, verb, warn
from harness.output import TextTable, say, write

_COUNTED = 10**9
"""Larger numbers of addresses are rounded in the table."""


@verb(
    "networks",
    examples={
        "networks": "List the networks",
        "networks cni-harness": "Show a network's addresses, and the pod that has each",
    },
)
@click.argument("name", required=False, shell_complete=complete_network)
def command(settings: Settings, *, name: str | None) -> None:
    """List networks, in the order of their files: `add` uses the first if none is named.

    With NAME: its ranges of addresses, how many are used and free, and the pod of each reservation, also of pods of
    other runtimes. Only host-local's
    reservations are known: other IPAM plugins keep none on this node, or use their own files.
    """
    if name is None:
        _show_all(settings)
    else:
        _show_addresses(settings, name)


def _show_all(settings: Settings) -> None:
    from harness.cli.defaults import configured_networks

    document = []
    for network in configured_networks(settings):
        capabilities = sorted(frozenset[str]().union(*(plugin.capabilities for plugin in network.plugins)))
        document.append(
            {
                "name": network.name,
                "cniVersion": network.cni_version,
                "plugins": [plugin.type for plugin in network.plugins],
                "capabilities": capabilities,
                "file": str(network.source or ""),
            }
        )
    rows = [[", ".join(each) if isinstance(each, list) else str(each) for each in one.values()] for one in document]
    headings = ("NETWORK", "VERSION", "PLUGINS", "CAPABILITIES", "FILE")
    settings.emit({"networks": document}, TextTable(headings, rows))


def _show_addresses(settings: Settings, name: str) -> None:
    from harness.cli.defaults import select_networks
    from harness.runtime.leftovers import survey
    from harness.runtime.network_addresses import network_addresses
    from harness.runtime.pods import PodRecordError

    needs_root("networks NAME", "reads reservations")
    [network] = select_networks(settings, [name])
    node = settings.open_node()
    try:
        found = survey(node, [network]) if node.exists() else None
    except PodRecordError:  # `pods.all` below tells it
        found = None
    document: dict[str, Any] = network_addresses(network, node, node.pods.all(on_error=warn), found)
    for error in document["errors"]:
        say(f"Warning: {error}")
    ranges, reservations = document["ranges"], document["reservations"]
    if not ranges and not reservations:
        say(f"Network {name} has no addresses of host-local")
    rows = []
    for each in ranges:
        span = f"{each['rangeStart']}-{each['rangeEnd']}"
        rows.append([each["subnet"], span, each["gateway"], _number(each["used"]), _number(each["free"])])
    settings.emit(document, TextTable(("SUBNET", "RANGE", "GATEWAY", "USED", "FREE"), rows))
    if not settings.is_table or not reservations:
        return
    rows = [[each["address"], _holder(each), each["ifname"], each["containerID"]] for each in reservations]
    write("")
    settings.emit({}, TextTable(("ADDRESS", "POD", "INTERFACE", "CONTAINER ID"), rows))


def _number(count: int) -> str:
    return str(count) if count < _COUNTED else f"{count:.1e}"


def _holder(reservation: dict[str, Any]) -> str:
    if reservation["note"]:
        return f"no pod: {reservation['note']}"
    if reservation["otherRuntime"]:
        return f"{reservation['pod'] or 'a pod'} (other runtime)"
    return reservation["pod"] or "no pod"
