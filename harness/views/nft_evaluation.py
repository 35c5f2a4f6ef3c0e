"""The way of one packet through the chains of a hook: which rules it meets, and what they decide.

A rule that cannot be read is followed both ways. If the ways differ, the outcome is "unsure", never a guess.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.snapshot.nft_syntax import rule_syntax
from harness.views.nft_ruleset import BaseChain, Chain, MatchedElement, Rules, nat_kind
from harness.views.nft_statements import DONE, Effect, Unreadable, effect_of, is_condition
from harness.views.nft_values import HookPoint, Packet, Special, holds, value_of

_DEEPEST: Final = 16
"""Levels of jumps; the kernel allows as many."""
_MOST_FORKS: Final = 200
"""Unreadable rules that are followed both ways, before the outcome is unsure."""
_STOPS: Final = ("drop", "reject")
_TERMINAL: Final = ("accept", *_STOPS)


class MatchedRule(NamedTuple):
    """A rule that the packet has met wholly, or the policy at the end of a base chain (`handle` 0)."""

    chain: str
    rule: str
    handle: int
    verdict: str
    elements: tuple[MatchedElement, ...] = ()


class Decision(NamedTuple):
    """A hook's decision about a packet: "accept", "drop", "reject", or "unsure" because of `reason`."""

    verdict: str
    packet: Packet
    matched: tuple[MatchedRule, ...]
    reason: str = ""


class _Way(NamedTuple):
    """A chain's verdict ("" at its end), and the packet with its changes."""

    verdict: str
    packet: Packet
    matched: tuple[MatchedRule, ...] = ()


def evaluate(rules: Rules, point: HookPoint, packet: Packet) -> Decision:
    """Follow a packet through a hook's chains, of `point.family` ("inet" or "bridge")."""
    walker = _Walker(rules, point)
    matched: tuple[MatchedRule, ...] = ()
    for group in rules.groups(point.family, packet.version, point.hook):
        is_nat = group[0].kind == "nat"
        kind = nat_kind(point.hook)
        if is_nat and kind in packet.translated:
            continue
        for number, base in enumerate(group):
            try:
                way = walker.base(base, packet)
                if is_nat and _is_final(way, packet, kind):
                    walker.must_agree(way, base, group[number + 1 :], packet)
            except Unreadable as error:
                return Decision("unsure", packet, matched, str(error))
            packet, matched = way.packet, matched + way.matched
            if way.verdict in {"drop", "reject"}:
                return Decision(way.verdict, packet, matched)
            if is_nat and kind in packet.translated:
                break
        if is_nat:
            packet = packet._replace(translated=packet.translated | {kind})
    return Decision("accept", packet, matched)


def certain_stop(rules: Rules, point: HookPoint, packet: Packet) -> MatchedRule | None:
    """Return the rule or policy of a filter hook that stops a packet, whatever the unreadable rules do; else None."""
    for group in rules.groups(point.family, packet.version, point.hook):
        for base in group:
            try:
                way = _Walker(rules, point, may_stop=True).base(base, packet)
            except Unreadable:
                continue
            if way.verdict in _STOPS:
                return way.matched[-1]
    return None


def _is_final(way: _Way, before: Packet, kind: str) -> bool:
    """Tell whether a chain of type nat has decided: the chains after it are not asked."""
    return way.verdict in {"drop", "reject"} or kind in way.packet.translated - before.translated


class _Walker:
    """Follows packets through chains of one hook."""

    def __init__(self, rules: Rules, point: HookPoint, *, may_stop: bool = False) -> None:
        """With `may_stop`, the packet is one that no unreadable rule has stopped."""
        self._may_stop = may_stop
        self._rules = rules
        self._point = point
        self._forks = 0
        self._policy = ""

    def base(self, base: BaseChain, packet: Packet) -> _Way:
        """Follow a packet through a base chain, with its policy. Raises Unreadable."""
        self._policy = base.policy
        way = self._chain(base.chain, packet, 0)
        if way.verdict in _TERMINAL:
            return way
        policy = MatchedRule(" ".join(base.chain), f"policy {base.policy}", 0, base.policy)
        return _Way(base.policy, way.packet, (*way.matched, policy))

    def must_agree(self, way: _Way, base: BaseChain, others: Sequence[BaseChain], packet: Packet) -> None:
        """Raise Unreadable if a chain of equal priority in another table would translate the packet differently.

        The first chain that translates decides, and the kernel does not tell the order of such chains.
        """
        for other in others:
            if other.priority == base.priority and other.chain[:2] != base.chain[:2]:
                rival = self.base(other, packet)
                is_final = _is_final(rival, packet, nat_kind(self._point.hook))
                if is_final and (rival.verdict, rival.packet) != (way.verdict, way.packet):
                    names = f"{' '.join(base.chain)} and {' '.join(other.chain)}"
                    raise Unreadable(f"{names} have one priority, and translate the packet differently")

    def _chain(self, chain: Chain, packet: Packet, depth: int) -> _Way:
        if depth > _DEEPEST:
            raise Unreadable(f"{' '.join(chain)}: jumps are deeper than {_DEEPEST}")
        return self._from(self._rules.rules(chain), 0, packet, depth)

    def _from(self, rules: Sequence[Mapping[str, Any]], start: int, packet: Packet, depth: int) -> _Way:
        """Follow a packet from one rule of a chain to its end."""
        matched: tuple[MatchedRule, ...] = ()
        for number in range(start, len(rules)):
            rule = rules[number]
            met, hits = self._conditions(rule, packet)
            if met is False:
                continue
            if met is None:
                way = self._both(rules, number, packet, depth)
                return way._replace(matched=matched + way.matched)
            way = self._apply(rule, packet, hits, depth)
            packet, matched = way.packet, matched + way.matched
            if way.verdict:
                return _Way("" if way.verdict == DONE else way.verdict, packet, matched)
        return _Way("", packet, matched)

    def _both(self, rules: Sequence[Mapping[str, Any]], number: int, packet: Packet, depth: int) -> _Way:
        """Follow a packet past an unreadable rule, and through its effect; both must come to the same."""
        rule = rules[number]
        self._forks += 1
        name = f"{rule['family']} {rule['table']} {rule['chain']}: {rule_syntax(rule)}"
        if self._forks > _MOST_FORKS:
            raise Unreadable(name)
        past = self._from(rules, number + 1, packet, depth)
        through = self._apply(rule, packet, (), depth)
        if not through.verdict:
            through = self._from(rules, number + 1, through.packet, depth)
        if self._may_stop and through.verdict in _STOPS:
            return past
        # At the end of a base chain, its policy decides.
        end = self._policy if depth == 0 else ""
        verdict = end if through.verdict in {"", DONE} else through.verdict
        if (verdict, through.packet) != (past.verdict or end, past.packet):
            raise Unreadable(name)
        return past

    def _conditions(self, rule: Mapping[str, Any], packet: Packet) -> tuple[bool | None, tuple[MatchedElement, ...]]:
        met: bool | None = True
        hits: list[MatchedElement] = []
        is_changed = False
        for expression in rule.get("expr", []):
            if not is_condition(expression):
                is_changed |= "mangle" in expression
                continue
            if is_changed:
                name = f"{rule['family']} {rule['table']} {rule['chain']}"
                raise Unreadable(f"{name}: {rule_syntax(rule)}: it changes packets that it then lets go on")
            found, hit = self._condition(expression, (rule["family"], rule["table"], ""), packet)
            if found is False:
                return False, ()
            if found is None:
                met = None
            if hit is not None:
                hits.append(hit)
        return met, tuple(hits)

    def _condition(
        self, expression: Mapping[str, Any], place: Chain, packet: Packet
    ) -> tuple[bool | None, MatchedElement | None]:
        """Tell whether a packet meets a condition, and the element that it meets."""
        match expression:
            case {"match": {"op": str(operator), "left": left, "right": right}}:
                pass
            case {"counter": {"map": {"key": left, "data": right}}}:
                operator = "=="
            case {"xt": {"type": "match", "name": "comment"}}:
                return True, None
            case _:
                return None, None
        value = value_of(left, packet, self._point)
        if value is Special.ABSENT:
            return False, None
        if not (isinstance(right, str) and right.startswith("@")):
            return holds(value, operator, right), None
        found, _, hit = self._rules.find(value, right, place)
        if operator == "!=":
            return (None if found is None else not found), None
        return found, hit

    def _apply(self, rule: Mapping[str, Any], packet: Packet, hits: tuple[MatchedElement, ...], depth: int) -> _Way:
        """Take a rule's statements; the verdict is "" if the chain goes on, DONE if it ends."""
        place = rule["family"], rule["table"], rule["chain"]
        effect: Effect = effect_of(rule, place, packet, self._point, self._rules)
        if not effect.applies:
            return _Way("", packet)
        hits += effect.hits
        told = MatchedRule(
            " ".join(place), rule_syntax(rule), rule.get("handle", 0), effect.verdict or "continue", hits
        )
        if effect.verdict not in {"jump", "goto"}:
            return _Way(DONE if effect.verdict == "return" else effect.verdict, effect.packet, (told,))
        way = self._chain((*place[:2], effect.target), effect.packet, depth + 1)
        verdict = way.verdict or (DONE if effect.verdict == "goto" else "")
        return _Way(verdict, way.packet, (told, *way.matched))
