"""The nodes of a cluster, as their Node objects tell, and which of their claims an agent follows.

Whoever may change a Node could draw the traffic of others to itself. So each range and address is judged. A younger
Node cannot take a range or an address of an older one, and the agent's own node comes before all.
"""

import ipaddress
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_INTERNAL: Final = "InternalIP"
_SHORTEST: Final = {4: 8, 6: 16}
"""Prefix of the largest range of a node that is followed if the cluster's ranges are not known."""
_LONGEST: Final = 60
"""Characters of a claim in a message."""
_FORBIDDEN: Final = {
    "0.0.0.0/8": "this host",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "::/127": "loopback",
    "::ffff:0:0/96": "IPv4-mapped",
    "fe80::/10": "link-local",
    "ff00::/8": "multicast",
}
"""Ranges of which no pod and no node has an address, each with the word for it."""


class ClusterNode(NamedTuple):
    """The claims of a Node object, each an untrusted text."""

    name: str
    created: str
    """metadata.creationTimestamp: RFC 3339 in UTC, so texts are ordered as times are; "" in a manifest."""
    pod_cidrs: tuple[str, ...]
    addresses: tuple[str, ...]
    """Those of the type InternalIP."""


class Peer(NamedTuple):
    """A node whose claims were judged: its ranges, and its first address of each family, by 4 and 6."""

    name: str
    pod_cidrs: tuple[Network, ...]
    addresses: Mapping[int, Address]


class Problem(NamedTuple):
    """Something that keeps a node from being reached; the text names the value."""

    node: str
    text: str

    def __str__(self) -> str:
        return f"Node {self.node}: {self.text}"


class Judgement(NamedTuple):
    """The nodes by their names, and all that was refused."""

    peers: dict[str, Peer]
    problems: list[Problem]


def read_node(content: Mapping[str, Any]) -> ClusterNode:
    """Read a Node object; parts that are missing, or of another kind, are empty."""
    metadata, spec, status = (_object(content.get(key)) for key in ("metadata", "spec", "status"))
    ranges = _texts(spec.get("podCIDRs")) or _texts([spec.get("podCIDR")])
    listed = status.get("addresses")
    entries = [_object(each) for each in listed] if isinstance(listed, list) else []
    addresses = [each.get("address") for each in entries if each.get("type") == _INTERNAL]
    return ClusterNode(
        str(metadata.get("name") or ""), str(metadata.get("creationTimestamp") or ""), ranges, _texts(addresses)
    )


def tunnel_mac(name: str) -> str:
    """Return the hardware address of a node's tunnel: it follows from the node's name, so no one has to tell it."""
    return bytes([0x02, *sha256(name.encode()).digest()[:5]]).hex(":")


def judge(nodes: Iterable[ClusterNode], own: str, cluster_cidrs: Sequence[Network] = ()) -> Judgement:
    """Judge all nodes; `own` is the name of the agent's. Ranges have to be in one of `cluster_cidrs`, if given."""
    peers: dict[str, Peer] = {}
    problems: list[Problem] = []
    taken = _Taken(cluster_cidrs)
    for node in sorted(nodes, key=lambda each: (each.name != own, each.created, each.name)):
        if node.name in peers:
            problems.append(Problem(node.name, "there is another Node of this name, which is followed"))
            continue
        addresses: dict[int, Address] = {}
        ranges: list[Network] = []
        for text in node.addresses:
            try:
                address = taken.address(node.name, text)
                addresses.setdefault(address.version, address)
            except _RefusedError as refused:
                problems.append(Problem(node.name, f"address {_shown(text)} {refused}"))
        for text in node.pod_cidrs:
            try:
                ranges.append(taken.network(node.name, text))
            except _RefusedError as refused:
                problems.append(Problem(node.name, f"podCIDR {_shown(text)} {refused}"))
        if not node.pod_cidrs:
            problems.append(Problem(node.name, "it has no podCIDR"))
        peers[node.name] = Peer(node.name, tuple(ranges), addresses)
    return Judgement(peers, problems)


def _shown(text: str) -> str:
    """Return a claim for a message: no control character, and no more than a line of it."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


class _RefusedError(Exception):
    """A claim is not followed; the message is the reason, after the value."""


class _Spans:
    """Ranges of numbers that do not overlap, each with an owner."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._spans: list[tuple[int, int, str, str]] = []

    def overlapping(self, first: int, last: int) -> Iterator[tuple[str, str]]:
        """Yield owner and text of the spans that have a number between `first` and `last`."""
        at = bisect_right(self._firsts, first) - 1
        for begin, end, owner, text in self._spans[max(at, 0) : bisect_right(self._firsts, last)]:
            if begin <= last and end >= first:
                yield owner, text

    def add(self, first: int, last: int, owner: str, text: str) -> None:
        at = bisect_left(self._firsts, first)
        self._firsts.insert(at, first)
        self._spans.insert(at, (first, last, owner, text))


class _Taken:
    """The ranges and addresses of the nodes judged so far, by the IP version."""

    def __init__(self, cluster_cidrs: Sequence[Network]) -> None:
        self._cluster_cidrs = cluster_cidrs
        self._ranges = {4: _Spans(), 6: _Spans()}
        self._addresses = {4: _Spans(), 6: _Spans()}

    def network(self, name: str, text: str) -> Network:
        """Take a range for a node. Raises _RefusedError."""
        try:
            network = ipaddress.ip_network(_without_zone(text))
        except ValueError:
            raise _RefusedError("is not a network") from None
        if network.prefixlen == 0:
            raise _RefusedError("is a default route")
        if self._cluster_cidrs and not any(is_within(network, each) for each in self._cluster_cidrs):
            raise _RefusedError(f"is outside of the cluster's ranges {', '.join(map(str, self._cluster_cidrs))}")
        first, last = int(network.network_address), int(network.broadcast_address)
        _refuse_forbidden(network.version, first, last)
        if network.prefixlen < _SHORTEST[network.version] and not self._cluster_cidrs:
            raise _RefusedError("is a large part of the Internet: --cluster-cidr has to name it")
        for owner, other in self._ranges[network.version].overlapping(first, last):
            raise _RefusedError(f"overlaps {other} of Node {owner}")
        for owner, other in self._addresses[network.version].overlapping(first, last):
            raise _RefusedError(f"holds the address {other} of Node {owner}")
        self._ranges[network.version].add(first, last, name, text)
        return network

    def address(self, name: str, text: str) -> Address:
        """Take an address for a node. Raises _RefusedError."""
        try:
            address = ipaddress.ip_address(_without_zone(text))
        except ValueError:
            raise _RefusedError("is not an IP address") from None
        number = int(address)
        _refuse_forbidden(address.version, number, number)
        for owner, other in self._ranges[address.version].overlapping(number, number):
            raise _RefusedError(f"is in the range {other} of Node {owner}")
        for owner, _ in self._addresses[address.version].overlapping(number, number):
            raise _RefusedError(f"is that of Node {owner}")
        self._addresses[address.version].add(number, number, name, text)
        return address


def is_within(inner: Network, outer: Network) -> bool:
    """Tell whether a network is a part of another one, or the same."""
    first, last = inner.network_address, inner.broadcast_address
    is_alike = inner.version == outer.version
    return is_alike and outer.network_address.packed <= first.packed and last.packed <= outer.broadcast_address.packed


_FORBIDDEN_SPANS: Final = tuple(
    (network.version, int(network.network_address), int(network.broadcast_address), word)
    for network, word in ((ipaddress.ip_network(text), word) for text, word in _FORBIDDEN.items())
)


def _without_zone(text: str) -> str:
    """Return a text that names no link, as `fe80::1%eth0` does. Raises _RefusedError."""
    if "%" in text:
        raise _RefusedError("has a zone")
    return text


def _refuse_forbidden(version: int, first: int, last: int) -> None:
    """Raise _RefusedError if a number between `first` and `last` is in a forbidden range."""
    for of, begin, end, word in _FORBIDDEN_SPANS:
        if of == version and begin <= last and end >= first:
            raise _RefusedError(f"is {word}" if begin <= first and last <= end else f"has {word} addresses")


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(values: object) -> tuple[str, ...]:
    return tuple(each for each in values if isinstance(each, str) and each) if isinstance(values, list) else ()
