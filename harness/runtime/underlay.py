"""The network between the nodes of a cluster: a bridge for each subnet, and a router, in a namespace of their own.

The kernel has one table of neighbours for all network namespaces (`gc_thresh3`: 1,024 entries). Fifty nodes that all
talk fill it, and then packets are dropped. Permanent entries do not count. So all of a subnet know each other from the
start, and none asks for a hardware address.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from harness.runtime.cluster import UNDERLAY, UPLINK, ClusterError, ClusterFiles, Layout, Place, Router
from harness.runtime.node import Node
from netlink.addresses import add_address
from netlink.link_wire import change_link
from netlink.links import set_up
from netlink.namespace import Namespace, entered
from netlink.neighbours import set_neighbour
from netlink.request import RtnlRequest, batches, change
from netlink.routes import add_route, new_route
from netlink.rtnl import Rtnl
from netlink.sysctl import write_sysctl

MACHINE_LOCK: Final = Path("/run/cni-harness/nodes.lock")
"""Held while nodes are made or removed: their names are the machine's, whatever the folder of their files."""
_ALIAS: Final = "uplink of cni-harness nodes"
"""Of an uplink that is complete."""
_USABLE_S: Final = 60.0
_NO_LINK_LOCAL: Final = "1"
"""A value of `addr_gen_mode`. A link-local address is announced to each port of the bridge, by each of its ports."""
_ANYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def refuse_foreign(layout: Layout, state_dir: Path, *, is_known: bool) -> None:
    """Raise ClusterError if a name is taken: by another program's namespace, or by a node that `add` has made.

    If the layout is known, it is on record already, and so nodes that were made with their namespaces are its own.
    """
    for node in nodes_of(layout, state_dir):
        if node.has_foreign_netns():
            raise ClusterError(f"another program has made the network namespace {node.name}")
        if not is_known and node.exists():
            raise ClusterError(f"node {node.name} exists; `{node.program()} del --all --prune` removes it")


def nodes_of(layout: Layout, state_dir: Path) -> list[Node]:
    """Return the nodes of a layout, and the underlay as the last of them."""
    names = [*(place.name for place in layout.places()), UNDERLAY]
    return [Node(name, state_dir) for name in names]


def make_nodes(layout: Layout, state_dir: Path) -> bool:
    """Make the nodes and the network between them, as far as they are missing, and tell whether any was.

    All links are operational then. Raises ClusterError, NodeError, OSError.
    """
    *nodes, underlay = nodes_of(layout, state_dir)
    places = list(layout.places())
    bin_dir = ClusterFiles(state_dir).bin_dir
    for node in (*nodes, underlay):
        node.conf_dir.mkdir(parents=True, exist_ok=True)  # otherwise it would be a copy of this host's
        with suppress(FileExistsError):
            node.bin_dir.symlink_to(bin_dir)
    with underlay.in_use(), Rtnl(underlay.namespace) as rtnl:
        bridges = [_make_router(rtnl, underlay, router) for router in layout.routers()]
        new = [
            _join(node, place, places, layout, rtnl, bridges[place.subnet])
            for node, place in zip(nodes, places, strict=True)
        ]
        for at, router in enumerate(layout.routers()):
            neighbours = [each for each in places if each.subnet == at]
            _send(rtnl, _neighbours(bridges[at], neighbours))
            _wait(rtnl, bridges[at], router.bridge)
    for node, is_new in zip(nodes, new, strict=True):
        if is_new:
            with node.in_use(), Rtnl(node.namespace) as rtnl:
                _wait(rtnl, _uplink(rtnl), str(node.name))
    return any(new)


def remove_nodes(layout: Layout, state_dir: Path) -> list[str]:
    """Remove the nodes and the network between them; return the names of those that stay, since they have pods.

    Raises OSError.
    """
    return [str(node.name) for node in nodes_of(layout, state_dir) if not node.remove()]


def _make_router(rtnl: Rtnl, underlay: Node, router: Router) -> int:
    """Make the bridge of a subnet, as far as it is missing, and return its ifindex."""
    with entered(_namespace(underlay)):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            write_sysctl("net/ipv6/conf/default/addr_gen_mode", _NO_LINK_LOCAL)
        for address in router.addresses:
            write_sysctl(f"net/ipv{address.version}/conf/all/forwarding", "1")
    rtnl.create_bridge(router.bridge, mac=router.mac)
    ifindex = _ifindex(rtnl, router.bridge)
    addresses = [add_address(ifindex, each, nodad=True, exist_ok=True) for each in router.addresses]
    _send(rtnl, [*addresses, set_up(ifindex)])
    return ifindex


def _join(node: Node, place: Place, places: Sequence[Place], layout: Layout, outside: Rtnl, bridge: int) -> bool:
    """Connect a node to its bridge; False if it is connected."""
    with node.in_use(), Rtnl(node.namespace) as inside:
        present = inside.link(UPLINK)
        if present is not None and present.alias == _ALIAS:
            return False
        # An `up` that was killed has left a part, or another underlay's end.
        inside.delete_link(UPLINK)
        outside.delete_link(place.name)
        namespace, router = _namespace(node), layout.routers()[place.subnet]
        outside.create_veth(place.name, peer_name=UPLINK, peer_namespace=namespace, peer_mac=place.mac, master=bridge)
        with entered(namespace), suppress(FileNotFoundError):  # a kernel without IPv6
            write_sysctl(f"net/ipv6/conf/{UPLINK}/addr_gen_mode", _NO_LINK_LOCAL)
        uplink = _uplink(inside)
        others = [each for each in places if each.subnet == place.subnet and each is not place]
        gateways = [each.ip for each in router.addresses]
        _send(
            inside,
            [
                *(add_address(uplink, each, nodad=True) for each in place.addresses),
                set_up(uplink),
                *_neighbours(uplink, [*others, router]),
                *(add_route(new_route(uplink, ip_network(_ANYWHERE[each.version]), gateway=each)) for each in gateways),
                change(change_link(uplink, alias=_ALIAS), f"complete {UPLINK}"),
            ],
        )
    return True


def _neighbours(ifindex: int, ends: Sequence[Place | Router]) -> Iterator[RtnlRequest[bool]]:
    return (set_neighbour(ifindex, each.ip, end.mac) for end in ends for each in end.addresses)


def _send(rtnl: Rtnl, requests: Sequence[RtnlRequest[Any]] | Iterator[RtnlRequest[Any]]) -> None:
    for batch in batches(requests):
        rtnl.send(*batch)


def _wait(rtnl: Rtnl, ifindex: int, name: str) -> None:
    """Wait until packets can pass: a worker of the kernel activates a link some time after it was set up."""
    if rtnl.wait_oper_up(ifindex, _USABLE_S) is None or not rtnl.wait_addresses_settled(ifindex, _USABLE_S):
        raise ClusterError(f"the link of {name} is not operational after {_USABLE_S:g} s")


def _uplink(rtnl: Rtnl) -> int:
    return _ifindex(rtnl, UPLINK)


def _ifindex(rtnl: Rtnl, name: str) -> int:
    link = rtnl.link(name)
    if link is None:
        raise ClusterError(f"the link {name} has just gone")
    return link.ifindex


def _namespace(node: Node) -> Namespace:
    if node.namespace is None:
        raise ClusterError(f"node {node.name} is not in use")
    return node.namespace
