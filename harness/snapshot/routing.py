"""Routes of all tables, and the rules that choose among them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.snapshot.state import Things

_LAST_METRIC: Final = 4294967295
_IDENTITY: Final = ("type", "dst", "tos", "via", "gateway", "dev", "table", "metric")
_UNSAID: Final = {"type": "unicast", "table": "main", "metric": 1024}
"""Values that ip-route(8) leaves out too; the metric is the default for a route of IPv6."""

_RULE_WORDS: Final = {"src": "from", "dst": "to", "table": "lookup"}
_DERIVED: Final = {"flags", "cache", "expires", "pref", "used", "age"}
_DERIVED_HOP_FLAGS: Final = {"dead", "linkdown", "offload", "trap"}


def routes(family: str, entries: Sequence[Mapping[str, Any]]) -> Things:
    """Return the routes of a family ("inet", "inet6") that `ip route show table all` lists.

    Routes that the kernel derives are left out: the table `local`, and routes of IPv6 that it makes of an address when
    the carrier appears, and removes with the address.
    """
    found: Things = {}
    for entry in entries:
        automatic = family == "inet6" and entry.get("protocol") == "kernel" and "gateway" not in entry
        if entry.get("table") == "local" or automatic or entry.get("metric") == _LAST_METRIC:
            continue
        name, attributes = _route(family, entry)
        known = found.setdefault(name, attributes)
        if known is not attributes and isinstance(known, dict):
            known["times"] = known.get("times", 1) + 1
    return found


def _route(family: str, entry: Mapping[str, Any]) -> tuple[str, Things]:
    # A gateway tells the two families' default routes apart; without one the name must.
    nameless = family == "inet6" and entry["dst"] == "default" and "gateway" not in entry
    words = ["::/0" if nameless else entry["dst"]]
    if entry.get("type", "unicast") != "unicast":
        words.insert(0, entry["type"])
    if "tos" in entry:
        words.append(f"tos {entry['tos']}")
    words += _hop(entry)
    for hop in entry.get("nexthops", []):
        words += ["nexthop", *_hop(hop), *([f"weight {hop['weight']}"] if hop.get("weight", 1) != 1 else [])]
    words += [f"{key} {entry[key]}" for key in ("table", "metric") if entry.get(key, _UNSAID[key]) != _UNSAID[key]]
    named = {*_IDENTITY, "nexthops", "metrics"}
    # One object of metrics (mtu, advmss) as iproute2 prints it, in a list.
    metrics = {key: value for each in entry.get("metrics", []) for key, value in each.items()}
    attributes: Things = metrics | {
        key: True if value is None else value
        for key, value in entry.items()
        if key not in named and key not in _DERIVED and (key, value) != ("scope", "global")
    }
    flags = [flag for flag in entry.get("flags", []) if flag not in _DERIVED_HOP_FLAGS]
    return " ".join(words), attributes | ({"flags": flags} if flags else {})


def _hop(hop: Mapping[str, Any]) -> list[str]:
    words = []
    if "gateway" in hop:
        words.append(f"via {hop['gateway']}")
    if "via" in hop:
        words.append(f"via {hop['via'].get('family', '')} {hop['via'].get('host', '')}")
    return words + ([f"dev {hop['dev']}"] if "dev" in hop else [])


def rules(family: str, entries: Sequence[Mapping[str, Any]]) -> Things:
    """Return the rules of a family that `ip rule` lists; equal ones are counted."""
    found: dict[str, int] = {}
    for entry in entries:
        said = {_RULE_WORDS.get(key, key): value for key, value in entry.items() if key not in {"priority", "protocol"}}
        words = [key if value is None else f"{key} {value}" for key, value in said.items()]
        name = f"{family} {entry.get('priority')}: {' '.join(words)}"
        found[name] = found.get(name, 0) + 1
    return {name: {"times": times} if times > 1 else {} for name, times in found.items()}
