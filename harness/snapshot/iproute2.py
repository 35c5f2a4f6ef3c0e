"""The listings of ip(8) and bridge(8).

They have links, addresses, VLANs as bridge ports, neighbours and forwarding entries that users or programs have set,
routes of all tables, and the rules that choose among these.
"""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

from harness.snapshot.state import Things

PeerPlace: TypeAlias = Callable[[int, int], str]
"""Returns the place of a link's other end: of a namespace ID (netns ID, see ip-netns(8)) and an index there."""

_FLAGS: Final = ("UP", "PROMISC", "ALLMULTI", "NOARP")

_DERIVED_ENDINGS: Final = ("_id", "_timer", "_detected", "_change", "_str", "_ack", "_pending", "_port", "_cost")
_DERIVED: Final = {"id", "no", "state", "cost"}
"""Of a bridge, of a port, of any kind of link: values that spanning tree, carrier and timers set, and no user."""

_AUTOMATIC_ADDRESS_KEYS: Final = {
    "family",
    "local",
    "address",
    "prefixlen",
    "valid_life_time",
    "preferred_life_time",
    "tentative",
    "deprecated",
    "dadfailed",
    "optimistic",
    "protocol",
}
_WITHOUT_RESOLUTION: Final = {"LOOPBACK", "POINTOPOINT", "NOARP"}
_LEARNED_ELSEWHERE: Final = ("extern_learn", "managed")
_MULTICAST_BIT: Final = 1

_LAST_METRIC: Final = 4294967295  # of the default route of IPv6 by which the kernel refuses packets
_IDENTITY: Final = ("type", "dst", "tos", "via", "gateway", "dev", "table", "metric")
_UNSAID: Final = {"type": "unicast", "table": "main", "metric": 1024}
"""Values that ip-route(8) leaves out too; the metric is the default for a route of IPv6."""

_RULE_WORDS: Final = {"src": "from", "dst": "to", "table": "lookup"}
_DERIVED_OF_ROUTES: Final = {"flags", "cache", "expires", "pref", "used", "age"}
_DERIVED_HOP_FLAGS: Final = {"dead", "linkdown", "offload", "trap"}


def links(entries: Sequence[Mapping[str, Any]], peer: PeerPlace) -> Things:
    """Return the links that `ip -details address` lists."""
    macs: dict[str, set[str]] = {}
    for entry in entries:
        macs.setdefault(entry.get("master", ""), set()).add(entry.get("address", ""))
    return {entry["ifname"]: _link(entry, macs.get(entry["ifname"], set()), peer) for entry in entries}


def _link(entry: Mapping[str, Any], port_macs: set[str], peer: PeerPlace) -> Things:
    kinds = entry.get("linkinfo", {})
    mac = entry.get("address", "")
    found: Things = {
        "kind": kinds.get("info_kind", entry.get("link_type", "")),
        "mtu": entry["mtu"],
        "flags": [flag for flag in _FLAGS if flag in entry["flags"]],
        # The lowest MAC of the ports, unless the bridge was given one of its own.
        "mac": "of a port" if kinds.get("info_kind") == "bridge" and mac in port_macs else mac,
        "group": entry.get("group", "default"),
        "queue length": entry.get("txqlen", 0),
    }
    optional = {
        "port of": entry.get("master", ""),
        "alias": entry.get("ifalias", ""),
        "other names": sorted(entry.get("altnames", [])),
        "peer": _peer(entry, peer),
        "settings": _settings(kinds.get("info_data", {})),
        "as port": _settings(kinds.get("info_slave_data", {})),
    }
    return found | {key: value for key, value in optional.items() if value}


def _peer(entry: Mapping[str, Any], peer: PeerPlace) -> str:
    if "link_netnsid" in entry:
        return peer(entry["link_netnsid"], entry.get("link_index", 0))
    return str(entry.get("link") or "")


def _settings(options: Mapping[str, object]) -> Things:
    return {key: value for key, value in options.items() if key not in _DERIVED and not key.endswith(_DERIVED_ENDINGS)}


def addresses(entries: Sequence[Mapping[str, Any]]) -> Things:
    """Return the addresses that `ip address` lists, without those that the kernel makes of the MAC and removes itself.

    Link-local ones of IPv6 appear with the carrier, which may be a second after everything else.
    """
    return {
        _address_name(address, entry["ifname"]): _address(address, entry["ifname"])
        for entry in entries
        for address in entry["addr_info"]
        if "local" in address and not _automatic(address)
    }


def _address_name(address: Mapping[str, Any], ifname: str) -> str:
    peer = f" peer {address['address']}" if "address" in address else ""
    return f"{address['local']}{peer}/{address['prefixlen']} dev {ifname}"


def _address(address: Mapping[str, Any], ifname: str) -> Things:
    found = {key: True if value is None else value for key, value in address.items()}
    if found.get("label") == ifname:
        del found["label"]
    return {key: value for key, value in found.items() if key not in _AUTOMATIC_ADDRESS_KEYS}


def _automatic(address: Mapping[str, Any]) -> bool:
    if address.get("temporary") or address.get("protocol") == "kernel_ll":
        return True
    if address["family"] != "inet6" or address["scope"] != "link":
        return False
    # Older iproute2 does not tell the origin: then the form of RFC 4291, appendix A.
    return ip_address(address["local"]).packed[11:13] == b"\xff\xfe"


def neighbours(entries: Sequence[Mapping[str, Any]], proxies: Sequence[Mapping[str, Any]], flags: Things) -> Things:
    """Return the neighbours that users or programs have set; `flags` are those of each link, by name.

    The kernel has some of its own that need no resolution: of groups, of broadcast, of links without resolution.
    """
    found: Things = {}
    for entry in entries:
        states, marks = entry.get("state", []), [mark for mark in _LEARNED_ELSEWHERE if mark in entry]
        fixed = "PERMANENT" in states or ("NOARP" in states and not _needs_no_resolution(entry, flags))
        if fixed or marks:
            state = {"state": states[0].lower()} if fixed else {}
            found[f"{entry['dst']} dev {entry['dev']}"] = {"lladdr": entry.get("lladdr", ""), **state} | dict.fromkeys(
                marks, True
            )
    for entry in proxies:
        found[f"proxy {entry['dst']} dev {entry.get('dev', '*')}"] = {}
    return found


def _needs_no_resolution(entry: Mapping[str, Any], flags: Things) -> bool:
    link_flags = flags.get(entry["dev"], [])
    resolves = isinstance(link_flags, list) and not _WITHOUT_RESOLUTION.intersection(link_flags)
    return not resolves or ip_address(entry["dst"]).is_multicast or entry.get("lladdr", "") in {"", "ff:ff:ff:ff:ff:ff"}


def forwarding_entries(entries: Sequence[Mapping[str, Any]], macs: Mapping[str, str]) -> Things:
    """Return the entries that users or programs put into forwarding tables (bridge-fdb).

    `macs` are those of links, by name. Left out are learned ones, the links' own addresses and the groups that links
    listen to.
    """
    found: Things = {}
    for entry in entries:
        master, mac = entry.get("master", ""), entry.get("mac", "")
        by_hand = entry.get("state") in {"permanent", "static"} or "extern_learn" in entry.get("flags", [])
        own = bool(master) and mac in {macs.get(master), macs.get(entry.get("ifname", ""))}
        group = not master and bool(int(mac[:2] or "0", 16) & _MULTICAST_BIT)
        if by_hand and not own and not group:
            named = [
                f"{key} {entry[key]}" for key in ("ifname", "master", "vlan", "dst", "vni", "port") if key in entry
            ]
            flags = sorted(flag for flag in entry.get("flags", []) if flag != "offload")
            found[" ".join([mac, *named])] = {"state": entry.get("state", ""), "flags": flags}
    return found


def vlans(entries: Sequence[Mapping[str, Any]]) -> Things:
    """Return the VLANs of bridges and their ports (bridge-vlan)."""
    return {
        f"{_span(vlan)} dev {entry['ifname']}": {"flags": vlan.get("flags", [])}
        for entry in entries
        for vlan in entry.get("vlans", [])
    }


def _span(vlan: Mapping[str, Any]) -> str:
    return f"{vlan['vlan']}-{vlan['vlanEnd']}" if "vlanEnd" in vlan else str(vlan["vlan"])


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
        if key not in named and key not in _DERIVED_OF_ROUTES and (key, value) != ("scope", "global")
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
        keys = {_RULE_WORDS.get(key, key): value for key, value in entry.items() if key not in {"priority", "protocol"}}
        words = [key if value is None else f"{key} {value}" for key, value in keys.items()]
        name = f"{family} {entry.get('priority')}: {' '.join(words)}"
        found[name] = found.get(name, 0) + 1
    return {name: {"times": times} if times > 1 else {} for name, times in found.items()}
