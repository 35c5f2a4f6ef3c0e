"""The state of a node, in a form that two moments of it can be compared in.

Left out is what changes without anybody's doing: indexes, handles, counters, timers, carrier, lifetimes, and what
the kernel derives (the `local` table from the addresses).
"""

import json
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

__all__ = ["SCRIPT", "State", "differences", "read_state"]

State = dict[str, dict[str, object]]
"""Sections (links, addresses, routes, rules, nft, iptables, sysctls, files), each of named things."""

SYSCTLS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv6/conf/all/accept_dad",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/accept_dad",
    "net/ipv6/conf/default/forwarding",
)

# One shell for everything: a state is read twice in most tests.
SCRIPT = "\nprintf '\\036'\n".join(
    [
        "ip -j -d link",
        "ip -j address",
        "ip -j -4 route show table all",
        "ip -j -6 route show table all",
        "ip -j -4 rule",
        "ip -j -6 rule",
        "nft -j list ruleset",
        "iptables-save 2>/dev/null",
        "ip6tables-save 2>/dev/null",
        f'for key in {" ".join(SYSCTLS)}; do echo "$key $(cat /proc/sys/$key)"; done',
    ]
)

FLAGS = {"ALLMULTI", "NOARP", "PROMISC", "UP"}
BRIDGE_KEYS = ("mcast_snooping", "stp_state", "vlan_default_pvid", "vlan_filtering")
PORT_KEYS = ("flood", "guard", "hairpin", "isolated", "learning", "mcast_flood")
VOLATILE_ROUTE_KEYS = {"cache", "expires", "flags", "pref"}
VOLATILE_NFT_KEYS = {"bytes", "expires", "handle", "index", "packets"}


def read_state(output: str, folder: Path) -> State:
    """The state that SCRIPT printed as `output`, with the files below `folder`."""
    link, address, route4, route6, rule4, rule6, nft, iptables4, iptables6, sysctls = output.split("\036")
    return {
        "links": {entry["ifname"]: _link(entry) for entry in json.loads(link)},
        "addresses": {entry["ifname"]: _addresses(entry) for entry in json.loads(address) if entry["addr_info"]},
        "routes": {**_routes("inet", route4), **_routes("inet6", route6)},
        "rules": {**_rules("inet", rule4), **_rules("inet6", rule6)},
        "nft": _nft(json.loads(nft)["nftables"]),
        "iptables": {"inet": _iptables(iptables4), "inet6": _iptables(iptables6)},
        "sysctls": _sysctls(sysctls),
        "files": {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*"))},
    }


def differences(before: State, after: State, ignore: Sequence[str] = ()) -> list[str]:
    """One line for each thing that went (-) or came (+), two for one that changed."""
    old, new = dict(_flat(before)), dict(_flat(after))
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name) or any(fnmatchcase(name, pattern) for pattern in ignore):
            continue
        lines += [f"{sign} {name}: {side[name]}" for sign, side in (("-", old), ("+", new)) if name in side]
    return lines


def _flat(state: State) -> Iterable[tuple[str, object]]:
    for section, things in state.items():
        for key, value in things.items():
            yield f"{section}/{key}", value


def _link(entry: dict[str, Any]) -> dict[str, object]:
    kind = entry.get("linkinfo", {})
    bridge, port = kind.get("info_data", {}), kind.get("info_slave_data", {})
    return {
        "kind": kind.get("info_kind", ""),
        "mtu": entry["mtu"],
        "master": entry.get("master", ""),
        "flags": sorted(FLAGS.intersection(entry["flags"])),
        "address": entry.get("address", ""),
        "alias": entry.get("ifalias", ""),
        "altnames": entry.get("altnames", []),
        "group": entry.get("group", ""),
        "bridge": {key: bridge[key] for key in BRIDGE_KEYS if key in bridge},
        "port": {key: port[key] for key in PORT_KEYS if key in port},
    }


def _addresses(entry: dict[str, Any]) -> list[str]:
    return sorted(f"{a['local']}/{a['prefixlen']} scope {a['scope']}" for a in entry["addr_info"])


def _routes(family: str, output: str) -> dict[str, object]:
    routes: list[dict[str, object]] = json.loads(output or "[]")
    kept = [_without(route, VOLATILE_ROUTE_KEYS) for route in routes if route.get("table") != "local"]
    return {f"{family} {_words(route)}": True for route in kept}


def _rules(family: str, output: str) -> dict[str, object]:
    return {f"{family} {_words(rule)}": True for rule in json.loads(output or "[]")}


def _words(fields: Any) -> str:
    return " ".join(f"{key} {value}" for key, value in fields.items())


def _nft(entries: list[dict[str, Any]]) -> dict[str, object]:
    things: dict[str, object] = {}
    for entry in entries:
        [(kind, description)] = entry.items()
        if kind == "metainfo":
            continue
        place = [kind, *(str(description[key]) for key in ("family", "table", "chain", "name") if key in description)]
        name = " ".join(place)
        if kind == "rule":
            name += f" #{sum(key.startswith(f'{name} #') for key in things)}"
        things[name] = _settled(description)
    return things


def _settled(value: Any) -> Any:
    """The same JSON without handles and counters; nft sorts the elements of sets itself."""
    if isinstance(value, dict):
        return {key: _settled(inner) for key, inner in value.items() if key not in VOLATILE_NFT_KEYS}
    return [_settled(inner) for inner in value] if isinstance(value, list) else value


def _iptables(output: str) -> list[str]:
    lines = (re.sub(r" ?\[\d+:\d+\]", "", line) for line in output.splitlines())
    return [line for line in lines if not line.startswith("#")]


def _sysctls(output: str) -> dict[str, object]:
    pairs = (line.partition(" ") for line in output.splitlines())
    return {key: value for key, _, value in pairs}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    if path.is_dir():
        return "a folder"
    return path.read_bytes().decode(errors="backslashreplace")


def _without(fields: dict[str, object], keys: set[str]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key not in keys}
