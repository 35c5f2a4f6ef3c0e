"""The packet filter: nftables, and iptables if nftables cannot show it.

nft lists also the rules that iptables' own nftables back end (iptables-nft) made. For iptables' extensions (comment,
MASQUERADE, statistic) its JSON has only their names. So if iptables-nft-save can show a table, its words replace
nft's rules. The legacy back end is not in nftables at all. It is asked only if the namespace has tables of it, so that
asking makes none.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.snapshot.nft_syntax import VOLATILE, element_key, nft_syntax, rule_syntax
from harness.snapshot.state import Things

_IPTABLES_TABLES: Final = {"filter", "nat", "mangle", "raw", "security"}
_COUNTERS: Final = re.compile(r"\[\d+:\d+\] ?")
_IDENTITY: Final = {"family", "table", "name", "elem"}


class Saved(NamedTuple):
    """The output of iptables-save: rules by chain (`ip filter FORWARD`), and the policy of each chain, "-" for none."""

    rules: dict[str, list[str]]
    policies: dict[str, str]

    def tables_and_chains(self) -> tuple[Things, Things]:
        """Return the tables, with the policies of the chains that each has, and the chains that users made."""
        tables: dict[str, dict[str, str]] = {}
        chains: Things = {}
        for place, policy in self.policies.items():
            table, _, chain = place.rpartition(" ")
            if policy == "-":
                chains[place] = {}
            else:
                tables.setdefault(table, {})[chain] = policy
        return dict(tables), chains


def has_nftables() -> bool:
    """Tell whether the kernel has nftables: a request would load the module, if it is one and was never used."""
    if os.path.exists("/sys/module/nf_tables"):  # noqa: PTH110 -- paths of the kernel
        return True
    try:
        with open(f"/lib/modules/{os.uname().release}/modules.dep", encoding="utf-8") as known:  # noqa: PTH123 -- as above
            return "/nf_tables.ko" not in known.read()
    except OSError:
        return True


def nftables(entries: Sequence[Mapping[str, Any]], saved: Saved) -> dict[str, Things]:
    """Return the sections of `nft -j list ruleset`, with the rules of `saved` in place of nft's."""
    sections: dict[str, Things] = {
        f"nft {what}": {} for what in ("tables", "chains", "rules", "sets", "elements", "objects")
    }
    rules: dict[str, list[str]] = {}
    for entry in entries:
        [(kind, described)] = entry.items()
        family, name = described.get("family", ""), described.get("name", "")
        if kind == "rule":
            rules.setdefault(f"{family} {described['table']} {described['chain']}", []).append(rule_syntax(described))
        elif kind == "table":
            sections["nft tables"][f"{family} {name}"] = _settled(described)
        elif kind == "chain":
            sections["nft chains"][f"{family} {described['table']} {name}"] = _settled(described)
        elif kind in {"set", "map"}:
            key = f"{family} {described['table']} {name}"
            sections["nft sets"][key] = {"kind": kind} | _settled(described)
            sections["nft elements"] |= _elements(key, described.get("elem", []))
        elif kind != "metainfo":
            sections["nft objects"][f"{kind} {family} {described.get('table', '')} {name}"] = _settled(described)
    sections["nft rules"] = {chain: texts for chain, texts in rules.items() if chain not in saved.policies}
    return sections


def _elements(key: str, elements: Sequence[object]) -> Things:
    found: Things = {}
    for element in elements:
        # A map's element is a pair. An element with a timeout expires by itself, so it is left out.
        side, target = (element[0], element[1]) if isinstance(element, list) else (element, None)
        if isinstance(side, dict) and isinstance(side.get("elem"), dict) and "expires" in side["elem"]:
            continue
        words, beside = element_key(side)
        found[f"{key} {{ {words} }}"] = beside | ({"to": nft_syntax(target)} if target is not None else {})
    return found


def _settled(described: Mapping[str, Any]) -> Things:
    return {
        key: value for key, value in described.items() if key not in _IDENTITY and key not in VOLATILE and key != "stmt"
    }


def shared_tables(entries: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the families ("ip", "ip6") that have tables of the names that iptables uses."""
    tables = (entry["table"] for entry in entries if "table" in entry)
    return {table["family"] for table in tables if table["name"] in _IPTABLES_TABLES} & {"ip", "ip6"}


def legacy_tables(family: str) -> bool:
    """Tell whether the thread's network namespace has tables of iptables' legacy back end for "ip" or "ip6"."""
    try:
        with open(f"/proc/thread-self/net/{family}_tables_names", encoding="utf-8") as names:  # noqa: PTH123 -- as above
            return bool(names.read().strip())
    except OSError:
        return False


def iptables(saved: Saved, family: str, output: str) -> None:
    """Add the output of iptables-save, or of ip6tables-save ("ip6"), to `saved`, without counters."""
    table = ""
    for line in output.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            saved.policies[f"{family} {table} {chain}"] = policy
        elif line.startswith("-A "):
            chain, _, rule = line.removeprefix("-A ").partition(" ")
            saved.rules.setdefault(f"{family} {table} {chain}", []).append(_COUNTERS.sub("", rule))
