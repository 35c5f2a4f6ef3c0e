"""The topology of a node: its links, what each leads to, their addresses and routes, and their owners."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.runtime.namespace_state import NamespaceState
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, namespaces_of
from harness.snapshot import Snapshot, take
from harness.views.attachments import KnownAttachment, known_attachments
from harness.views.namespaces import LinkEnd, LinkOwner, NamespaceView, owner_of, read_namespaces
from harness.views.published_ports import PublishedPort, published_ports
from netlink.link import Link
from netlink.routes import KernelRoute

_LOOPBACK: Final = "lo"
_RTN_UNICAST: Final = 1
_UNREACHABLE_KINDS: Final = {6: "blackhole", 7: "unreachable", 8: "prohibit"}  # RTN_* of linux/rtnetlink.h
_LOADED: Final = {"tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}
"""Links that modules of the kernel put into every namespace; they are down unless somebody uses them."""


class TopologyLink(NamedTuple):
    """A link of a place. `mtu` is in bytes; `addresses` have prefix lengths, without those of link scope."""

    name: str
    kind: str
    mac: str
    mtu: int
    is_up: bool
    addresses: tuple[str, ...]
    bridge: str
    """The bridge that it is a port of, or the VRF above it; empty if there is none."""
    peer: LinkEnd | None
    """Of a veth its other end, of a VLAN or macvlan the link below. Its place is empty if that is unknown."""
    owner: LinkOwner | None


class TopologyPlace(NamedTuple):
    """A network namespace: the node, a pod, or another one at the other end of a link."""

    label: str
    netns: str
    pods: tuple[str, ...]
    """`default/pod1`, or container IDs; empty if no record and no cache names the namespace."""
    links: tuple[TopologyLink, ...]
    routes: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """The places of a node by label, the node first, and its port mappings. `missing` names unreadable sources."""

    places: Mapping[str, TopologyPlace]
    ports: Sequence[PublishedPort] = ()
    missing: Sequence[str] = field(default=())

    @property
    def node(self) -> TopologyPlace:
        """The node itself."""
        return self.places[NODE]

    def ports_of(self, place: TopologyPlace) -> list[PublishedPort]:
        """Return the mappings that lead to an address of a place."""
        own = {address.partition("/")[0] for link in place.links for address in link.addresses}
        return [port for port in self.ports if port.address in own]

    def above(self, place: str, name: str) -> Iterator[tuple[TopologyPlace, TopologyLink]]:
        """Yield the ends that lead to a link: the other end of a veth, VLANs and macvlans on top of the link."""
        for other in self.places.values():
            for link in other.links:
                if link.peer == (place, name):
                    yield other, link

    def to_document(self) -> dict[str, object]:
        """Return the topology as a JSON object."""
        return {
            "places": [_place_document(place) for place in self.places.values()],
            "portMappings": [port._asdict() for port in self.ports],
            "missing": list(self.missing),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Topology":
        """Read what `to_document` returned. Raises KeyError, TypeError."""
        places = [_place_of(place) for place in document["places"]]
        ports = tuple(PublishedPort(**port) for port in document["portMappings"])
        return cls({place.label: place for place in places}, ports, tuple(document["missing"]))


def read_topology(node: Node, *, cache_dirs: Sequence[Path] = (), warn: Callable[[str], object]) -> Topology:
    """Return the present topology of an existing node. Raises SnapshotError, NetlinkError, OSError.

    `cache_dirs` are runtimes' caches of results, by default the node's /var/lib/cni.
    """
    known = known_attachments(node, cache_dirs=cache_dirs, warn=warn)
    return build_topology(read_namespaces(node, known), take(namespaces_of(node, [])), known)


def build_topology(
    views: Mapping[str, NamespaceView], snapshot: Snapshot, known: Sequence[KnownAttachment]
) -> Topology:
    """Return the topology of namespaces that were read; `snapshot` has the node's firewall."""
    places = {
        label: TopologyPlace(
            label=label,
            netns=view.path,
            pods=tuple(dict.fromkeys(each.pod or each.container_id for each in view.attachments)),
            links=tuple(_link(link, view, views, known) for link in view.state.links if _is_shown(link, view.state)),
            routes=tuple(
                _route(route, view.state)
                for route in view.state.main_routes()
                if not (route.dst.is_link_local or route.dst.is_multicast)
            ),
        )
        for label, view in views.items()
    }
    return Topology(places, tuple(published_ports(snapshot, NODE)), tuple(snapshot.missing))


def _is_shown(link: Link, state: NamespaceState) -> bool:
    if link.name == _LOOPBACK:
        return not all(address.ip.is_loopback for address in state.addresses.get(link.ifindex, []))
    return link.up or link.name not in _LOADED


def _link(
    link: Link, view: NamespaceView, views: Mapping[str, NamespaceView], known: Sequence[KnownAttachment]
) -> TopologyLink:
    addresses = view.state.addresses.get(link.ifindex, [])
    return TopologyLink(
        name=link.name,
        kind=link.kind or "device",
        mac=link.mac,
        mtu=link.mtu,
        is_up=link.up,
        addresses=tuple(str(address) for address in addresses if not address.is_link_local),
        bridge=view.state.name(link.master) if link.master else "",
        peer=view.peers.get(link.name),
        owner=owner_of(link, view, views, known),
    )


def _route(route: KernelRoute, state: NamespaceState) -> str:
    kind = f"{_UNREACHABLE_KINDS.get(route.kind, '')} " if route.kind != _RTN_UNICAST else ""
    via = f" via {route.gateway}" if route.gateway is not None else ""
    through = f" dev {state.name(route.ifindex)}" if route.ifindex else ""
    mtu = f" mtu {route.mtu}" if route.mtu else ""
    target = f"default{' (IPv6)' if route.dst.version == 6 and not via else ''}"  # noqa: PLR2004 -- the family
    return f"{kind}{route.dst if route.dst.prefixlen else target}{via}{through}{mtu}"


def _place_document(place: TopologyPlace) -> dict[str, object]:
    links = [_link_document(link) for link in place.links]
    return {**place._asdict(), "pods": list(place.pods), "links": links, "routes": list(place.routes)}


def _link_document(link: TopologyLink) -> dict[str, object]:
    return {
        **link._asdict(),
        "addresses": list(link.addresses),
        "peer": link.peer._asdict() if link.peer else None,
        "owner": link.owner._asdict() if link.owner else None,
    }


def _place_of(document: Mapping[str, Any]) -> TopologyPlace:
    links = tuple(_link_of(link) for link in document["links"])
    return TopologyPlace(
        document["label"], document["netns"], tuple(document["pods"]), links, tuple(document["routes"])
    )


def _link_of(document: Mapping[str, Any]) -> TopologyLink:
    peer = LinkEnd(**document["peer"]) if document["peer"] else None
    owner = LinkOwner(**document["owner"]) if document["owner"] else None
    return TopologyLink(**{**document, "addresses": tuple(document["addresses"]), "peer": peer, "owner": owner})
