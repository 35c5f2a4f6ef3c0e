"""`cni-harness inspect`: one pod, as it was made and in the kernel's present state."""

from collections.abc import Iterator
from typing import Any

import click

from harness.cli.node_pods import node_pod
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.output import TextTable


@verb(
    "inspect",
    examples={
        "inspect pod1": "Show the pod's side and the node's side of its networks",
        "inspect pod1 -o json": "The same for a program, with the plugins' results",
    },
    root="looks into a network namespace",
)
@click.argument("pod", shell_complete=complete_pod)
@namespace_option
def command(settings: Settings, *, pod: str, namespace: str) -> None:
    """Show a pod: its networks and their plugins, the result of each, and the kernel's state of it now.

    A "!" marks a fact of a result that the kernel contradicts. The node's side is the pod's veth, its bridge, and
    the entries of the firewall that name its container ID or one of its addresses.
    """
    from harness.runtime.pod_inspection import inspect_pod

    document = inspect_pod(settings.open_node(), node_pod(settings, namespace, pod))
    settings.emit(document, TextTable(("", pod), list(_rows(document))))


_IDENTITY = (
    ("namespace", "namespace"),
    ("state", "state"),
    ("container ID", "containerID"),
    ("UID", "uid"),
    ("netns", "netns"),
    ("resolv.conf", "resolvConf"),
    ("created", "created"),
)


def _rows(document: dict[str, Any]) -> Iterator[list[str]]:
    yield from ([title, str(document[key])] for title, key in _IDENTITY)
    for network in document["networks"]:
        # noop reports nothing: its pod has no interface of that name.
        ifname = f" as {network['ifname']}" if network["compared"] else " (reports no interface)"
        yield ["network", network["name"] + ifname]
        yield ["chain", " → ".join(map(_plugin_words, network["plugins"]))]
        for each in network["compared"]:
            wrong = f": the kernel {each['mismatch']}" if each["mismatch"] else ""
            yield ["result", f"{'! ' if wrong else ''}{each['fact']}{wrong}"]
    yield from (["link", _link_words(link)] for link in document["kernel"]["links"])
    for route in document["kernel"]["routes"]:
        via = f" via {route['gw']}" if "gw" in route else ""
        yield ["route", f"{route['dst']}{via} dev {route['dev']}"]
    # Two networks of a pod may have one bridge.
    host_links = {link["name"]: link for network in document["networks"] for link in network["hostLinks"]}
    yield from (["node link", _link_words(link)] for link in host_links.values())
    yield from ([f"node {entry['kind']}", entry["words"]] for entry in document["firewall"])


def _plugin_words(plugin: dict[str, str]) -> str:
    delegate = f" with {plugin['ipam']}" if plugin["ipam"] else ""
    return f"{plugin['type']}{delegate} ({plugin['executable'] or 'no executable'})"


def _link_words(link: dict[str, Any]) -> str:
    port = f" port of {link['portOf']}," if "portOf" in link else ""
    addresses = ", ".join(link["addresses"]) or "no address"
    return f"{link['name']}: {'up' if link['up'] else 'down'},{port} {link['mac']}, mtu {link['mtu']}: {addresses}"
