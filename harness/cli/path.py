"""`cni-harness path`: the way of a packet from a pod, and where it ends."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, cache_dir_option, complete_node, complete_pod, namespace_option, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.views.path import PathResult
    from harness.views.path_network import PathNamespaces
    from harness.views.path_place import PathNamespace

_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_UNSPECIFIED: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address(0), 6: IPv6Address(0)}
_HIGHEST_PORT = 65535


@verb(
    "path",
    examples={
        "path pod1 pod2 --port 80/tcp": "Follow a TCP connection from a pod to another",
        "path pod1 192.0.2.1": "Follow a ping to an address",
        "path pod1 pod2 --node a --to-node b": "Follow a ping to a pod of another node",
    },
    root="looks into network namespaces",
)
@click.argument("pod", shell_complete=complete_pod)
@click.argument("target", metavar="POD|ADDRESS", shell_complete=complete_pod)
@click.option(
    "--port",
    metavar="PORT/PROTOCOL",
    help="The destination's port: 80/tcp, 53/udp.  [default: an ICMP echo request]",
)
@click.option(
    "--to-node", metavar="NAME", shell_complete=complete_node, help="The node of the second pod.  [default: the same]"
)
@click.option(
    "--size",
    type=click.IntRange(68, 65535),
    metavar="BYTES",
    help="The size of the packet, which no router may fragment.  [default: one that fits]",
)
@click.option("-6", "--ipv6", "wants_ipv6", is_flag=True, help="Take the IPv6 address of a pod.")
@cache_dir_option
@namespace_option
def command(
    settings: Settings,
    *,
    pod: str,
    target: str,
    port: str | None,
    to_node: str | None,
    size: int | None,
    wants_ipv6: bool,
    cache_dirs: tuple[Path, ...],
    namespace: str,
) -> int:
    """Follow a new connection's first packet from a pod to another pod, to the node or to any address.

    Each line is a route, a link, a bridge, a tunnel, a rule of the firewall or a translation of addresses, with its
    place. Routes are the kernel's answers; rules are evaluated as nftables does. If a rule on the way cannot be read,
    the verdict is "unsure". With --to-node, the way is followed to a pod of another node of this machine. No packet is
    sent, and nothing is changed. The exit code is 0 if the packet arrives or leaves the node, 1 if it is stopped, and
    2 if the verdict is "unsure".
    """
    from contextlib import closing

    from harness.runtime.node import Node
    from harness.views.attachments import known_attachments
    from harness.views.nft_values import Packet
    from harness.views.path import find_path
    from harness.views.path_network import PathNamespaces

    number, protocol = _port(port)
    node = settings.existing_node()
    known = known_attachments(node, cache_dirs=cache_dirs, warn=say)
    others = []
    if to_node not in {None, settings.node}:
        other = Node(to_node, settings.state_dir)
        other.must_exist()
        others.append((other, known_attachments(other, warn=say)))
    with closing(PathNamespaces(node, known, *others)) as namespaces:
        origin = _place(namespaces, namespace, pod, namespaces.nodes[0])
        destination = _address(namespaces, namespace, target, namespaces.nodes[-1], wants_ipv6=wants_ipv6)
        if not protocol:
            protocol = 1 if destination.version == 4 else 58  # noqa: PLR2004 -- ICMP, ICMPv6
        packet = Packet(_UNSPECIFIED[destination.version], destination, protocol, number)
        result = find_path(namespaces, origin, packet, size or 0)
    settings.emit(_document(result), TextTable(("PLACE", "STEP", "WHAT"), [[*hop] for hop in result.hops]))
    if settings.is_table and result.mtu:
        say(f"Smallest MTU: {result.mtu} ({result.mtu_at})")
    return {"delivered": 0, "leaves": 0, "unsure": 2}.get(result.verdict, 1)


def _port(text: str | None) -> tuple[int | None, int]:
    if text is None:
        return None, 0
    number, _, protocol = text.partition("/")
    protocol = protocol or "tcp"
    if not number.isdecimal() or not 0 < int(number) <= _HIGHEST_PORT or protocol not in _PROTOCOLS:
        raise click.BadParameter(f"{text!r}: wanted a port and tcp, udp or sctp, such as 80/tcp", param_hint="--port")
    return int(number), _PROTOCOLS[protocol]


def _place(namespaces: "PathNamespaces", namespace: str, pod: str, node: str) -> "PathNamespace":
    from harness.runtime.node_snapshot import NODE

    title = f"{namespace}/{pod}"
    for place in namespaces.places.values():
        if place.view.node == node and any(
            title == each.pod or pod == each.container_id for each in place.view.attachments
        ):
            return place
    where = "" if node == NODE else f" on node {node}"
    raise click.ClickException(f"there is no pod {title}{where} with a network namespace")


def _address(
    namespaces: "PathNamespaces", namespace: str, target: str, node: str, *, wants_ipv6: bool
) -> IPv4Address | IPv6Address:
    try:
        return ip_address(target)
    except ValueError:
        place = _place(namespaces, namespace, target, node)
    version = 6 if wants_ipv6 else 4
    results = [ip.address.ip for each in place.view.attachments for ip in each.network.decoded().ips]
    addresses = [each for each in results if each.version == version] or results
    if not addresses:
        raise click.ClickException(f"pod {target} has no address")
    return addresses[0]


def _document(result: "PathResult") -> dict[str, object]:
    return {
        "verdict": result.verdict,
        "place": result.place,
        "reason": result.reason,
        "source": str(result.packet.source),
        "destination": str(result.packet.destination),
        "port": result.packet.port,
        "mtu": result.mtu,
        "mtuAt": result.mtu_at,
        "hops": [hop._asdict() for hop in result.hops],
        "rules": [
            {**rule._asdict(), "place": place, "elements": [each._asdict() for each in rule.elements]}
            for place, rule in result.rules
        ],
    }
