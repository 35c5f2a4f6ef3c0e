"""The values that nftables' expressions have for one packet, and the comparison with a rule's right-hand side.

Everything has three outcomes: true, false, unknown (None). A value may be UNKNOWN. ABSENT means that the kernel ends
the rule, as for `ip saddr` of an IPv6 packet. JSON format: libnftables-json(5).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, NamedTuple, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

PROTOCOLS: Final = {
    "icmp": 1,
    "igmp": 2,
    "tcp": 6,
    "udp": 17,
    "dccp": 33,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "icmpv6": 58,
    "ipv6-icmp": 58,
    "sctp": 132,
    "udplite": 136,
}
_IPV4: Final = 4
_MASKED: Final = "&"
"""Beside the flags that a mask selects. A comparison of all flags is unknown: the kernel has more than those here."""


class Special(Enum):
    """A value that is not known, or that the packet does not have."""

    UNKNOWN = "unknown"
    ABSENT = "absent"


Value: TypeAlias = Address | int | str | frozenset[str] | tuple[Any, ...] | Special


class Packet(NamedTuple):
    """The first packet of a connection, or a reply. A port is None if the protocol has none."""

    source: Address
    destination: Address
    protocol: int
    """IPPROTO_*."""
    port: int | None
    """The destination's."""
    mark: int = 0
    connection_mark: int = 0
    status: frozenset[str] = frozenset()
    """Words of `ct status`: "snat", "dnat"."""
    translated: frozenset[str] = frozenset()
    """The addresses whose translation is decided: "source", "destination"."""
    original: tuple[Address, Address, int | None] | None = None
    """Source, destination and port before translation, in this network namespace."""
    state: str = "new"
    """Word of `ct state`: "new", or "established" for a reply."""
    known: frozenset[str] | None = None
    """The only values that are known, as "saddr", "iifname" or "ct state"; None if all are."""

    @property
    def version(self) -> int:
        """4 or 6."""
        return self.destination.version

    def knows(self, name: str) -> bool:
        """Tell whether a value is known."""
        return self.known is None or name in self.known


class HookPoint(NamedTuple):
    """A hook of the kernel, and what it knows beside the packet. Links are names, "" for none."""

    hook: str
    iif: str
    oif: str
    address_type: Callable[[Address], str | None]
    """Returns "local", "unicast", "broadcast" or "multicast"; None if unknown."""
    masquerade: Address | None = None
    """The source address that masquerading gives, None if the link has none."""
    family: str = "inet"
    """"inet" or "bridge"."""


def value_of(expression: Any, packet: Packet, point: HookPoint) -> Value:  # noqa: ANN401 -- nft's JSON
    """Return the value of an expression for a packet."""
    found: Value = Special.UNKNOWN
    match expression:
        case {"payload": {"protocol": str(protocol), "field": str(field)}}:
            found = _payload(protocol, field, packet)
        case {"meta": {"key": str(key)}}:
            found = _meta(key, packet, point)
        case {"ct": {"key": str(key)} as ct}:
            found = _connection(key, ct, packet)
        case {"fib": {"result": "type", "flags": ["daddr"] | ["saddr"] as flags}}:
            kind = point.address_type(packet.destination if flags == ["daddr"] else packet.source)
            found = Special.UNKNOWN if kind is None else kind
        case {"concat": list(parts)}:
            values = tuple(value_of(part, packet, point) for part in parts)
            found = Special.ABSENT if Special.ABSENT in values else values
        case {"&": [left, right]} | {"|": [left, right]} | {"^": [left, right]}:
            [operator] = expression
            found = _bitwise(operator, value_of(left, packet, point), right)
        case int() | str():
            found = expression
    return found


def _payload(protocol: str, field: str, packet: Packet) -> Value:
    family = {"ip": 4, "ip6": 6}.get(protocol)
    if family is not None:
        if family != packet.version:
            return Special.ABSENT
        own: dict[str, Value] = {
            "saddr": packet.source,
            "daddr": packet.destination,
            "protocol": packet.protocol,
            "nexthdr": packet.protocol,
            "version": family,
        }
        return own[field] if field in own and packet.knows(field) else Special.UNKNOWN
    if protocol in {"ether", "arp", "vlan"}:
        is_type = (protocol, field) == ("ether", "type")
        return _ether_type(packet) if is_type else Special.ABSENT if protocol == "arp" else Special.UNKNOWN
    if packet.knows("l4proto") and PROTOCOLS.get(protocol, packet.protocol) != packet.protocol:
        return Special.ABSENT
    if protocol in {"icmp", "icmpv6"}:
        # The packet that `path` follows is ping's.
        return "echo-request" if field == "type" and packet.knows("l4proto") else Special.UNKNOWN
    return packet.port if field == "dport" and packet.port is not None else Special.UNKNOWN


def _ether_type(packet: Packet) -> str:
    return "ip" if packet.version == _IPV4 else "ip6"


def _meta(key: str, packet: Packet, point: HookPoint) -> Value:
    known: dict[str, Value] = {
        "iif": point.iif,
        "iifname": point.iif,
        "oif": point.oif,
        "oifname": point.oif,
        "l4proto": packet.protocol,
        "nfproto": f"ipv{packet.version}",
        "protocol": _ether_type(packet),
        "mark": packet.mark,
    }
    if not packet.knows(key) or (key == "nfproto" and point.family == "bridge"):
        return Special.UNKNOWN
    return known.get(key, Special.UNKNOWN)


def _connection(key: str, ct: Mapping[str, Any], packet: Packet) -> Value:
    if not packet.knows(f"ct {key}"):
        return Special.UNKNOWN
    own: dict[str, Value] = {
        "state": frozenset({packet.state}),
        "status": packet.status,
        "direction": "original" if packet.state == "new" else "reply",
        "mark": packet.connection_mark,
    }
    if key in own:
        return own[key]
    source, destination, port = packet.original or (packet.source, packet.destination, packet.port)
    if ct.get("dir") != "original":
        return Special.UNKNOWN
    # `ip daddr`, or `daddr` with the family beside it.
    family, _, field = key.rpartition(" ")
    family = family or ct.get("family") or ""
    if family and {"ip": 4, "ip6": 6}.get(family) != packet.version:
        return Special.ABSENT
    values: dict[str, Value | None] = {
        "saddr": source,
        "daddr": destination,
        "proto-dst": port,
        "protocol": packet.protocol,
    }
    found = values.get(field)
    return Special.UNKNOWN if found is None else found


def _bitwise(operator: str, left: Value, right: Any) -> Value:  # noqa: ANN401 -- nft's JSON
    if isinstance(left, Special):
        return left
    if isinstance(left, frozenset):
        return left & frozenset(_texts(right)) | {_MASKED} if operator == "&" else Special.UNKNOWN
    if not isinstance(left, int) or not isinstance(right, int):
        return Special.UNKNOWN
    return {"&": left & right, "|": left | right, "^": left ^ right}[operator]


def holds(left: Value, operator: str, right: Any) -> bool | None:  # noqa: ANN401 -- nft's JSON
    """Compare a known or unknown value, but not ABSENT, with a rule's literal or anonymous set."""
    if isinstance(left, frozenset):
        return _flags_hold(left, operator, right)
    if operator in {"==", "in"}:
        return literal(left, right)
    if operator == "!=":
        found = literal(left, right)
        return None if found is None else not found
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}.get(operator)


def _flags_hold(left: frozenset[str], operator: str, right: Any) -> bool | None:  # noqa: ANN401 -- nft's JSON
    wanted = frozenset(_texts(right))
    is_state = left in ({"new"}, {"established"})
    if operator == "in" or (operator == "==" and is_state):
        return bool(left & wanted)
    if operator == "!=" and is_state:
        return not left & wanted
    if operator in {"==", "!="} and _MASKED in left:
        return (left - {_MASKED} == wanted) is (operator == "==")
    return None


def literal(value: Value, right: Any) -> bool | None:  # noqa: ANN401, PLR0911 -- nft's JSON; a case for each form
    """Tell whether a value is a literal, or in a prefix, a range, a pattern, or one of an anonymous set."""
    match right:
        case {"elem": {"val": inner}}:
            return literal(value, inner)
        case {"set": list(members)} | {"set": [*members]}:
            return any_of(literal(value, member) for member in members)
        case {"set": single}:
            return literal(value, single)
        case {"concat": list(parts)} if isinstance(value, tuple) and len(value) == len(parts):
            found = [literal(one, part) for one, part in zip(value, parts, strict=True)]
            return False if False in found else None if None in found else True
    if isinstance(value, Special | tuple | frozenset):
        return None
    if isinstance(value, IPv4Address | IPv6Address):
        return _address_is(value, right)
    if isinstance(value, int):
        return _number_is(value, right)
    if not isinstance(right, str):
        return None
    return value.startswith(right[:-1]) if right.endswith("*") else value == right


def _address_is(value: Address, right: Any) -> bool | None:  # noqa: ANN401 -- nft's JSON
    try:
        match right:
            case str():
                return value == ip_address(right)
            case {"prefix": {"addr": str(address), "len": int(length)}}:
                return value in ip_network(f"{address}/{length}", strict=False)
            case {"range": [str(first), str(last)]}:
                return int(ip_address(first)) <= int(value) <= int(ip_address(last))
    except ValueError:
        return None
    return None


def _number_is(value: int, right: Any) -> bool | None:  # noqa: ANN401 -- nft's JSON
    match right:
        case {"range": [first, last]}:
            low, high = _number(first), _number(last)
            return None if low is None or high is None else low <= value <= high
        case int() | str():
            number = _number(right)
            return None if number is None else value == number
    return None


def _number(text: int | str) -> int | None:
    if isinstance(text, int):
        return text
    if text in PROTOCOLS:
        return PROTOCOLS[text]
    try:
        return int(text, 0)
    except ValueError:
        return None


def any_of(outcomes: Iterable[bool | None]) -> bool | None:
    """Return True if one is true, None if one may be, else False."""
    found = list(outcomes)
    return True if True in found else None if None in found else False


def _texts(value: Any) -> Sequence[str]:  # noqa: ANN401 -- nft's JSON
    if isinstance(value, dict) and "set" in value:
        value = value["set"]
    return [str(each) for each in (value if isinstance(value, list) else [value])]
