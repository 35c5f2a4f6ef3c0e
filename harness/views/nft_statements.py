"""The effect of a rule's statements on one packet: verdicts, marks, and translations of addresses."""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from harness.snapshot.nft_syntax import rule_syntax
from harness.views.nft_ruleset import Chain, MatchedElement, Rules, nat_kind
from harness.views.nft_values import Address, HookPoint, Packet, Special, value_of

DONE: Final = "return"
"""The verdict that ends a chain, and no other."""
_WITHOUT_EFFECT: Final = frozenset(
    {"counter", "log", "ct helper", "ct timeout", "ct expectation", "flow", "last", "set", "map"}
)
_CONDITIONS: Final = frozenset({"match", "limit", "quota", "ct count", "socket", "osf"})
_SIMPLE: Final = {"accept": "accept", "drop": "drop", "reject": "reject", "return": DONE}
_TARGETS: Final = {"REJECT": "reject", "RETURN": DONE, "ACCEPT": "accept", "DROP": "drop"}


class Unreadable(Exception):  # noqa: N818 -- no error: the answer is "unsure"
    """The effect of a rule on the packet is not known; the text is the rule."""


class Effect(NamedTuple):
    """The effect of a rule whose conditions are met."""

    verdict: str
    """"" to go on, "accept", "drop", "reject", "return", "jump" or "goto"."""
    packet: Packet
    target: str = ""
    hits: tuple[MatchedElement, ...] = ()
    applies: bool = True
    """False if a look-up in a map ends the rule."""


def is_condition(expression: Mapping[str, Any]) -> bool:
    """Tell whether an expression lets the packet go on or not, and has no other effect."""
    [(name, inner)] = expression.items()
    if name == "counter":
        return isinstance(inner, dict) and "map" in inner
    if name == "xt":
        return bool(inner.get("type") == "match")
    # An element that is added may be limited by a rate, which nothing here knows.
    return name in _CONDITIONS or (name in {"set", "map"} and "stmt" in inner)


def effect_of(rule: Mapping[str, Any], place: Chain, packet: Packet, point: HookPoint, rules: Rules) -> Effect:
    """Return the effect of a rule whose conditions are met. Raises Unreadable."""
    effect = Effect("", packet)
    statements = _Statements(place, point, rules)
    for expression in rule.get("expr", []):
        [(name, inner)] = expression.items()
        if is_condition(expression) or name in _WITHOUT_EFFECT:
            continue
        found = statements.take(name, inner, effect)
        if found is None:
            raise Unreadable(f"{' '.join(place)}: {rule_syntax(rule)}")
        effect = found
        if effect.verdict or not effect.applies:
            break
    return effect


class _Statements(NamedTuple):
    """The statements of the rules in one place, for packets at a hook; each returns None if it cannot be read."""

    place: Chain
    point: HookPoint
    rules: Rules

    def take(self, name: str, inner: Any, effect: Effect) -> Effect | None:  # noqa: ANN401 -- nft's JSON
        """Return the effect with one statement more."""
        if name in _SIMPLE:
            return effect._replace(verdict=_SIMPLE[name])
        if name in {"jump", "goto"}:
            return effect._replace(verdict=name, target=inner["target"])
        if name == "masquerade":
            return _with_source(effect, self.point.masquerade)
        if name in {"dnat", "snat"}:
            return self._translated(name, inner or {}, effect)
        others = {"mangle": self._mangled, "vmap": self._mapped, "xt": self._target}
        return others[name](inner, effect) if name in others else None

    def _mangled(self, inner: Mapping[str, Any], effect: Effect) -> Effect | None:
        value = value_of(inner["value"], effect.packet, self.point)
        match inner["key"]:
            case {"meta": {"key": "nftrace"}}:
                return effect
            case {"meta": {"key": "mark"}} if isinstance(value, int):
                return effect._replace(packet=effect.packet._replace(mark=value))
            case {"ct": {"key": "mark"}} if isinstance(value, int):
                return effect._replace(packet=effect.packet._replace(connection_mark=value))
        return None

    def _mapped(self, inner: Mapping[str, Any], effect: Effect) -> Effect | None:
        value = value_of(inner["key"], effect.packet, self.point)
        if value is Special.ABSENT:
            return effect._replace(applies=False)
        if isinstance(value, frozenset) and len(value) == 1:
            # The state of a connection is one flag.
            (value,) = value
        found, mapped, hit = self.rules.find(value, inner["data"], self.place)
        if not found:
            return effect._replace(applies=False) if found is False else None
        hits = (*effect.hits, hit) if hit else effect.hits
        [(name, target)] = mapped.items()
        if name in {"jump", "goto"}:
            return effect._replace(verdict=name, target=target["target"], hits=hits)
        return effect._replace(verdict=_SIMPLE[name], hits=hits) if name in _SIMPLE else None

    def _target(self, inner: Mapping[str, Any], effect: Effect) -> Effect | None:
        """Return the effect of a target of iptables, as far as its name tells it."""
        name = inner.get("name", "")
        if inner.get("type") != "target":
            return None
        if name in _TARGETS:
            return effect._replace(verdict=_TARGETS[name])
        if name == "MASQUERADE":
            return _with_source(effect, self.point.masquerade)
        return effect if name in {"LOG", "NFLOG", "TRACE"} else None

    def _translated(self, name: str, inner: Mapping[str, Any], effect: Effect) -> Effect | None:
        address, port = inner.get("addr"), inner.get("port")
        if isinstance(address, dict) and "map" in address:
            value = value_of(address["map"]["key"], effect.packet, self.point)
            found, mapped, hit = self.rules.find(value, address["map"]["data"], self.place)
            if found is False or value is Special.ABSENT:
                return effect._replace(applies=False)
            match mapped:
                case {"concat": [address, port]}:
                    pass
                case _:
                    address = mapped
            effect = effect._replace(hits=(*effect.hits, hit) if hit else effect.hits)
        target = None
        with suppress(ValueError):
            target = ip_address(address) if isinstance(address, str) else None
        is_read = (address is None) == (target is None) and (port is None or isinstance(port, int))
        if not is_read or (target is None and (name == "snat" or port is None)):
            return None
        return _with_source(effect, target) if name == "snat" else _with_destination(effect, target, port, self.point)


def _with_source(effect: Effect, source: Address | None) -> Effect:
    """Translate the source; without an address for it, the kernel drops the packet: nf_nat_masquerade.c."""
    if source is None:
        return effect._replace(verdict="drop")
    packet = _kept(effect.packet)
    status = packet.status | ({"snat"} if source != packet.source else frozenset())
    packet = packet._replace(source=source, status=status, translated=packet.translated | {"source"})
    return effect._replace(verdict="accept", packet=packet)


def _with_destination(effect: Effect, target: Address | None, port: int | None, point: HookPoint) -> Effect:
    packet = _kept(effect.packet)
    moved = packet._replace(
        destination=target if target is not None else packet.destination,
        port=port if port is not None and packet.port is not None else packet.port,
    )
    is_moved = (moved.destination, moved.port) != (packet.destination, packet.port)
    status = packet.status | ({"dnat"} if is_moved else frozenset())
    moved = moved._replace(status=status, translated=packet.translated | {nat_kind(point.hook)})
    return effect._replace(verdict="accept", packet=moved)


def _kept(packet: Packet) -> Packet:
    """Return the packet with its addresses before translation."""
    if packet.original is not None:
        return packet
    return packet._replace(original=(packet.source, packet.destination, packet.port))
