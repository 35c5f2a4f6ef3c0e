"""The packet filter on the way of a forwarded packet: which base chain stops it, as far as the rules can be read.

A rule that is not understood never stops a packet here, and may let it pass. So a finding is certain, and its absence
is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Final, NamedTuple, TypeAlias

from harness.snapshot.firewall import has_nftables
from harness.snapshot.nft_words import rule_in_words
from harness.snapshot.tools import start

__all__ = ["ForwardedPacket", "Ruleset", "Stop", "read_ruleset"]

Address: TypeAlias = str
_FAMILIES: Final = {4: ("ip", "inet"), 6: ("ip6", "inet")}
_DEEPEST: Final = 16
"""Levels of jumps; the kernel allows as many."""
_ACCEPT: Final = "accept"
_STOPS: Final = ("drop", "reject")
_VERDICTS: Final = {"accept": _ACCEPT, "queue": _ACCEPT, "drop": "drop", "reject": "reject", "return": ""}
"""The verdict of each statement; "" is the end of the chain."""
_WITHOUT_EFFECT: Final = frozenset({"counter", "log", "mangle", "notrack"})
_Chain: TypeAlias = tuple[str, str, str]
"""Family, table and name."""


class ForwardedPacket(NamedTuple):
    """A packet that the node forwards. None is unknown. Interfaces are names."""

    source: Address | None
    destination: Address | None
    iifname: str | None
    oifname: str | None
    is_reply: bool

    @property
    def version(self) -> int:
        """4 or 6."""
        return ip_address(self.source or self.destination or "0.0.0.0").version  # noqa: S104 -- no listener


class Stop(NamedTuple):
    """The chain and the rule, or the policy, that stops a packet."""

    chain: str
    rule: str


class _Outcome(NamedTuple):
    """The verdict on a packet, "" at the end of a chain, and the rule that says so."""

    verdict: str
    rule: Mapping[str, Any] | None = None


_FELL_THROUGH: Final = _Outcome("")
_PERHAPS: Final = _Outcome(_ACCEPT)
"""The packet may pass."""


class Ruleset:
    """The rules of a namespace, as `nft --json list ruleset` prints them."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._bases: list[Mapping[str, Any]] = []
        self._rules: dict[_Chain, list[Mapping[str, Any]]] = {}
        self._sets: dict[_Chain, list[Any]] = {}
        for entry in entries:
            for kind, described in entry.items():
                place = described.get("family", ""), described.get("table", ""), described.get("name", "")
                if kind == "chain" and "hook" in described:
                    self._bases.append(described)
                elif kind == "rule":
                    self._rules.setdefault((*place[:2], described["chain"]), []).append(described)
                elif kind in {"set", "map"}:
                    self._sets[place] = described.get("elem", [])

    def stop(self, packet: ForwardedPacket) -> Stop | None:
        """Return what certainly stops a packet at the hook `forward`; None if nothing certainly does."""
        for base in sorted(self._bases, key=lambda base: int(base.get("prio", 0))):
            is_filter = base.get("type") == "filter" and base.get("hook") == "forward"
            if not is_filter or base["family"] not in _FAMILIES[packet.version]:
                continue
            name = f"{base['family']} {base['table']} {base['name']}"
            verdict, rule = self._chain((base["family"], base["table"], base["name"]), packet, 0)
            if verdict == "" and base.get("policy") == "drop":
                return Stop(name, "policy drop")
            if verdict in _STOPS and rule is not None:
                chain = f"{rule['family']} {rule['table']} {rule['chain']}"
                return Stop(chain, rule_in_words(rule))
        return None

    def _chain(self, place: _Chain, packet: ForwardedPacket, depth: int) -> "_Outcome":
        """Follow a packet through a chain."""
        if depth > _DEEPEST:
            return _PERHAPS
        for rule in self._rules.get(place, []):
            outcome = self._rule(rule, place, packet, depth)
            if outcome is not None:
                return outcome
        return _FELL_THROUGH

    def _rule(self, rule: Mapping[str, Any], place: _Chain, packet: ForwardedPacket, depth: int) -> "_Outcome | None":
        """Return a rule's outcome; None if the packet goes on to the next rule, or may."""
        matched: bool | None = True
        for expression in rule.get("expr", []):
            [(name, inner)] = expression.items()
            if name in {"jump", "goto"}:
                found = self._chain((*place[:2], inner["target"]), packet, depth + 1)
                leaves = name == "goto" or found.verdict
                return found if leaves and (matched or found.verdict == _ACCEPT) else None
            if name in _VERDICTS or _is_rejection(name, inner):
                verdict = _VERDICTS.get(name, "reject")
                if matched:
                    return _Outcome(verdict, rule)
                return _PERHAPS if verdict in {_ACCEPT, ""} else None
            if name == "vmap":
                return _PERHAPS
            matched = _both(matched, self._condition(name, inner, place, packet))
            if matched is False:
                return None
        return None

    def _condition(self, name: str, inner: Any, place: _Chain, packet: ForwardedPacket) -> bool | None:  # noqa: ANN401 -- nft's JSON
        """Tell whether a packet gets past an expression; None if that is unknown."""
        if name == "match":
            return self._matches(inner, place, packet)
        if name == "xt":
            # A comment of iptables matches every packet; all other extensions are unknown.
            return True if inner.get("name") == "comment" or inner.get("type") == "target" else None
        return True if name in _WITHOUT_EFFECT else None

    def _matches(self, match: Mapping[str, Any], place: _Chain, packet: ForwardedPacket) -> bool | None:
        """Tell whether a packet meets a condition; None if that is unknown."""
        found = self._holds(match["left"], match["right"], place, packet)
        if found is None or match["op"] in {"==", "in"}:
            return found
        return not found if match["op"] == "!=" else None

    def _holds(self, left: Any, right: Any, place: _Chain, packet: ForwardedPacket) -> bool | None:  # noqa: ANN401 -- nft's JSON
        holds: bool | None = None
        match left:
            case {"payload": {"protocol": "ip" | "ip6" as protocol, "field": "saddr" | "daddr" as key}}:
                value = packet.source if key == "saddr" else packet.destination
                is_family = {"ip": 4, "ip6": 6}[protocol] == packet.version
                holds = is_family and self._among(value, right, place)
            case {"meta": {"key": "iifname" | "iif"}}:
                holds = self._among(packet.iifname, right, place)
            case {"meta": {"key": "oifname" | "oif"}}:
                holds = self._among(packet.oifname, right, place)
            case {"meta": {"key": "nfproto"}}:
                holds = str(right) == f"ipv{packet.version}"
            case {"ct": {"key": "state"}}:
                holds = ("established" if packet.is_reply else "new") in _texts(right)
        return holds

    def _among(self, value: str | None, right: Any, place: _Chain) -> bool | None:  # noqa: ANN401 -- nft's JSON
        if isinstance(right, str) and right.startswith("@"):
            elements = self._sets.get((*place[:2], right[1:]))
            if elements is None:
                return None
            # An empty set has no element, whatever the packet.
            return False if not elements else self._any(value, elements)
        if isinstance(right, dict) and "set" in right:
            return self._any(value, right["set"])
        return _is(value, right)

    @staticmethod
    def _any(value: str | None, elements: Sequence[Any]) -> bool | None:
        found = [_is(value, _key(element)) for element in elements]
        return True if True in found else None if None in found else False


def read_ruleset() -> Ruleset | None:
    """Return the rules of the calling thread's network namespace; None without nft. Raises SnapshotError."""
    listing = start("nft", "--json", "list", "ruleset") if has_nftables() else None
    return Ruleset(listing.documents(1)[0]["nftables"]) if listing is not None else None


def _key(element: Any) -> Any:  # noqa: ANN401 -- nft's JSON
    side = element[0] if isinstance(element, list) else element
    return side["elem"]["val"] if isinstance(side, dict) and "elem" in side else side


def _is(value: str | None, right: Any) -> bool | None:  # noqa: ANN401 -- nft's JSON
    """Compare an address or an interface with a value, a prefix, a range or a pattern."""
    if value is None:
        return None
    match right:
        case {"prefix": {"addr": str(address), "len": int(length)}}:
            return ip_address(value) in ip_network(f"{address}/{length}", strict=False)
        case {"range": [str(first), str(last)]}:
            return int(ip_address(first)) <= int(ip_address(value)) <= int(ip_address(last))
        case str() if right.endswith("*"):
            return value.startswith(right[:-1])
        case str():
            return value == right
        case _:
            return None


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 -- nft's JSON
    if isinstance(value, dict) and "set" in value:
        value = value["set"]
    yield from (str(each) for each in (value if isinstance(value, list) else [value]))


def _is_rejection(name: str, inner: Any) -> bool:  # noqa: ANN401 -- nft's JSON
    return name == "xt" and (inner.get("type"), inner.get("name")) == ("target", "REJECT")


def _both(*conditions: bool | None) -> bool | None:
    return False if False in conditions else None if None in conditions else True
