"""The chains, rules and sets of a network namespace, as `nft --json list ruleset` prints them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from firewall.owner import Owner
from harness.snapshot.firewall import has_nftables
from harness.snapshot.nft_syntax import element_key
from harness.snapshot.tools import find_tool, start
from harness.views.nft_values import Special, Value, any_of, literal

Chain: TypeAlias = tuple[str, str, str]
"""Family, table and name."""

_NAT_PRIORITIES: Final = {"prerouting": -100, "output": -100, "postrouting": 100, "input": 100}
"""The kernel runs all chains of type nat at one place, whatever their priorities: nf_nat_proto.c."""
_FAMILIES: Final[Mapping[str, Mapping[int, tuple[str, ...]]]] = {
    "bridge": {4: ("bridge",), 6: ("bridge",)},
    "inet": {4: ("ip", "inet"), 6: ("ip6", "inet")},
}


class BaseChain(NamedTuple):
    """A chain that the kernel calls at a hook."""

    chain: Chain
    kind: str
    """"filter", "nat" or "route"."""
    priority: int
    policy: str
    age: tuple[int, int]
    """Handles of table and chain: larger ones were made later."""


class MatchedElement(NamedTuple):
    """An element of a set or map that a packet has met."""

    name: str
    """`inet cni_harness_firewall pods4`."""
    key: str
    owner: str
    """The attachment that the element's comment names, else the comment."""

    def __str__(self) -> str:
        return f"element {self.key} of {self.name}" + (f" ({self.owner})" if self.owner else "")


class Rules:
    """The rules of one network namespace."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.devices: set[str] = set()
        """Links with chains of the family netdev."""
        self.has_arp = False
        self._bases: dict[tuple[str, str], list[BaseChain]] = {}
        self._rules: dict[Chain, list[Mapping[str, Any]]] = {}
        self._sets: dict[Chain, list[Any]] = {}
        tables: dict[tuple[str, str], int] = {}
        for entry in entries:
            for kind, described in entry.items():
                family, table = described.get("family", ""), described.get("table", "")
                if kind == "table":
                    tables[family, described["name"]] = described.get("handle", 0)
                elif kind == "chain" and "hook" in described:
                    self._add_base(described, tables.get((family, table), 0))
                elif kind == "rule":
                    self._rules.setdefault((family, table, described["chain"]), []).append(described)
                elif kind in {"set", "map"}:
                    self._sets[family, table, described["name"]] = described.get("elem", [])

    def _add_base(self, described: Mapping[str, Any], table_handle: int) -> None:
        family = described["family"]
        if family == "netdev":
            names = described.get("dev", [])
            self.devices |= {names} if isinstance(names, str) else set(names)
        self.has_arp |= family == "arp"
        base = BaseChain(
            (family, described["table"], described["name"]),
            described["type"],
            int(described["prio"]),
            described.get("policy", "accept"),
            (table_handle, described.get("handle", 0)),
        )
        self._bases.setdefault((family, described["hook"]), []).append(base)

    def rules(self, chain: Chain) -> Sequence[Mapping[str, Any]]:
        """Return the rules of a chain, in their order."""
        return self._rules.get(chain, [])

    def groups(self, family: str, version: int, hook: str) -> Iterator[list[BaseChain]]:
        """Yield the chains of a hook in the kernel's order: each alone, and those of type nat together.

        `family` is "inet" or "bridge". Of equal priorities, the newest comes first: nf_hook_entries_grow().
        """
        bases = [base for each in _FAMILIES[family][version] for base in self._bases.get((each, hook), [])]
        bases.sort(key=lambda base: (base.priority, -base.age[0], -base.age[1]))
        nat = [base for base in bases if base.kind == "nat"]
        groups = [(base.priority, base.age, [base]) for base in bases if base.kind != "nat"]
        if nat:
            # The kernel's own hook for translation is registered with the first of them.
            oldest = min(base.age for base in nat)
            groups.append((_NAT_PRIORITIES[hook], oldest, nat))
        groups.sort(key=lambda group: (group[0], -group[1][0], -group[1][1]))
        for _, _, group in groups:
            yield group

    def find(self, value: Value, right: Any, place: Chain) -> "tuple[bool | None, Any, MatchedElement | None]":  # noqa: ANN401 -- nft's JSON
        """Look a value up in a set or map, named (`@pods4`) or written in the rule; return the map's value, too."""
        if isinstance(right, str) and right.startswith("@"):
            elements = self._sets.get((*place[:2], right[1:]))
            name = " ".join((*place[:2], right[1:]))
        elif isinstance(right, dict) and "set" in right:
            members = right["set"]
            elements, name = members if isinstance(members, list) else [members], ""
        else:
            return None, None, None
        if elements is None or isinstance(value, Special):
            return (False if elements == [] else None), None, None
        outcomes = []
        for element in elements:
            key, mapped = (element[0], element[1]) if isinstance(element, list) else (element, None)
            outcome = literal(value, key)
            if outcome:
                return True, mapped, _hit(name, key) if name else None
            outcomes.append(outcome)
        return any_of(outcomes), None, None


def read_rules() -> Rules | None:
    """Return the rules of the calling thread's network namespace; None without nft. Raises SnapshotError."""
    if not has_nftables() or find_tool("nft") is None:
        return None
    return Rules(start("nft", "--json", "list", "ruleset").documents(1)[0]["nftables"])


def nat_kind(hook: str) -> str:
    """Return the address that chains of type nat translate at a hook."""
    return "destination" if hook in {"prerouting", "output"} else "source"


def _hit(name: str, key: object) -> MatchedElement:
    words, beside = element_key(key)
    comment = str(beside.get("comment", ""))
    owner = Owner.from_label(comment)
    told = f"{owner.network}/{owner.container_id[:12]}/{owner.ifname}" if owner else comment
    return MatchedElement(name, words, told)
