"""One network namespace, read by a thread that is in it. A tool that would list nothing is not started.

Queueing disciplines, their classes and filters are those that the kernel does not give every link by itself.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from harness.snapshot.firewall import Saved, has_nftables, iptables, legacy_tables, nftables, shared_tables
from harness.snapshot.iproute2 import addresses, forwarding_entries, neighbours, routes, rules, vlans
from harness.snapshot.state import SnapshotError, Things
from harness.snapshot.sysctls import read, sysctls
from harness.snapshot.tools import Listing, NothingListed, find_tool, start
from netlink.namespace import Namespace, entered
from netlink.namespace_ids import namespace_id
from netlink.netfilter import Netfilter
from netlink.nft_wire import encode_message
from netlink.request import RtnlSocket
from netlink.traffic_control import TCMSG
from netlink.wire import HEADER, message

_KERNELS_OWN: Final = "0:"
"""The handle of the kernel's own disciplines: noqueue, mq, fq_codel and pfifo_fast at the root, and below mq."""

_CHOSEN_BELOW: Final = 0x8000
"""Handles from here on are given out by the kernel."""

_CLASSFUL: Final = {"drr", "ets", "hfsc", "htb", "qfq"}
_COUNTED: Final = {"refcnt", "bind", "ref", "direct_packets_stat", "installed", "used"}
_GIVEN_OUT: Final = {"index", "fh", "handle", "order"}  # numbers that the kernel chooses
_VOLATILE: Final = _COUNTED | _GIVEN_OUT
_SIDES: Final = {"ingress": ["ingress"], "clsact": ["ingress", "egress"]}
_INGRESS: Final = "ffff:fff1"
"""TC_H_INGRESS of linux/pkt_sched.h, as tc prints it."""
_LEAF: Final = re.compile(r" leaf [0-9a-f]+:")


def qdiscs(entries: Sequence[Mapping[str, Any]]) -> Things:
    """Return the queueing disciplines that `tc qdisc show` lists, without the kernel's own."""
    found: Things = {}
    for entry in entries:
        if entry["handle"] == _KERNELS_OWN:
            continue
        parent = entry.get("parent", "")
        place = "root" if entry.get("root") else f"parent {'ingress' if parent == _INGRESS else parent}"
        options = _settled(entry.get("options", {}))
        chosen = int(entry["handle"].rstrip(":") or "0", 16) < _CHOSEN_BELOW
        blocks = {key: entry[key] for key in ("ingress_block", "egress_block") if key in entry}
        found[f"{entry['kind']} dev {entry['dev']} {place}"] = {
            **({"handle": entry["handle"]} if chosen else {}),
            **(options if isinstance(options, dict) else {}),
            **blocks,
        }
    return found


def filters_and_classes(entries: Sequence[Mapping[str, Any]]) -> tuple[Things, Things]:
    """Return the filters and the classes of the qdiscs that `tc qdisc show` listed. Raises SnapshotError."""
    commands, classful = [], []
    for entry in entries:
        if entry["handle"] == _KERNELS_OWN:
            continue
        dev = entry["dev"]
        commands += [(dev, side) for side in _SIDES.get(entry["kind"], [f"parent {entry['handle']}"])]
        if entry["kind"] in _CLASSFUL:
            classful.append(dev)
    if not commands:
        return {}, {}
    lines = [f"filter show dev {dev} {side}" for dev, side in commands]
    answers = start("tc", "-json", "-details", batch=lines).documents(len(lines))
    filters: Things = {}
    for (dev, side), answer in zip(commands, answers, strict=True):
        for entry in answer:
            _count_filter(filters, dev, side, entry)
    return filters, {name: {} for dev in dict.fromkeys(classful) for name in _classes(dev)}


def _count_filter(filters: Things, dev: str, side: str, entry: Mapping[str, Any]) -> None:
    options = entry.get("options")
    # Without options it is the head of a list of filters; u32 has its hash tables among them.
    if not isinstance(options, dict) or "ht_divisor" in options:
        return
    chain = f" chain {entry['chain']}" if entry.get("chain") else ""
    place = f"dev {dev} {side} pref {entry.get('pref')} protocol {entry.get('protocol')} {entry.get('kind')}{chain}"
    number = sum(name.startswith(f"{place} #") for name in filters)
    filters[f"{place} #{number}"] = _settled(options)


def _classes(dev: str) -> list[str]:
    # This tool prints classes as text, even with the option for JSON.
    output = start("tc", "-details", "class", "show", "dev", dev).text()
    return [f"{_LEAF.sub('', line).removeprefix('class ').strip()} dev {dev}" for line in output.splitlines()]


def _settled(value: object) -> object:
    """Return the same JSON without handles, counters and the like."""
    if isinstance(value, dict):
        return {key: True if inner is None else _settled(inner) for key, inner in value.items() if key not in _VOLATILE}
    return [_settled(inner) for inner in value] if isinstance(value, list) else value


_NFT_MSG_GETTABLE: Final = 1  # linux/netfilter/nf_tables.h
_RTM_GETQDISC: Final = 38  # linux/rtnetlink.h
_EVERY_FAMILY: Final = 0
_LOOPBACK: Final = "lo:"
_HEADER_LINES: Final = 2
"""Of /proc/net/dev (proc_pid_net(5))."""

_LINKS: Final = ("address show", "neighbour show nud all", "neighbour show proxy")
_ROUTING: Final = ("route show table all", "rule show")
_BRIDGES: Final = ("fdb show", "vlan show")

_ROUNDS: Final = 10
"""If a link disappears between two questions, the second one fails; the next round succeeds."""

_SHOWS: Final = {
    "ip": "links, addresses, routes, rules and neighbours",
    "bridge": "forwarding tables and VLANs",
    "tc": "qdiscs, classes and filters",
    "nft": "nftables",
    "iptables-nft-save": "extensions in the rules of iptables",
    "ip6tables-nft-save": "extensions in the rules of ip6tables",
    "iptables-legacy-save": "the legacy rules of iptables",
    "ip6tables-legacy-save": "the legacy rules of ip6tables",
}


@dataclass
class Reading:
    """The content of a namespace; the places of the links' other ends are not filled in yet.

    `entries` is the list of `ip address`, None without that tool; `labels` are the other namespaces, by the number that
    this namespace has for each.
    """

    sections: dict[str, Things] = field(default_factory=dict)
    entries: Sequence[Mapping[str, Any]] | None = None
    labels: dict[int, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


class _Tools:
    """The tools that run in the thread's namespace; a tool whose output is not needed is ended."""

    def __init__(self, reading: Reading, undo: ExitStack) -> None:
        self._reading = reading
        self._undo = undo

    def start(
        self, tool: str, *arguments: str, batch: Sequence[str] = (), has_content: Callable[[], bool] = lambda: True
    ) -> Listing | None:
        """Start a tool if it is installed, and if the kernel has something for it to list."""
        if find_tool(tool) is None:
            self._reading.missing.add(f"{tool} is not installed: {_SHOWS[tool]} are not in the snapshot")
            return None
        if not has_content():
            return NothingListed()
        listing = start(tool, *arguments, batch=batch)
        self._undo.callback(listing.cancel)
        return listing


def read_namespace(namespace: Namespace, others: Mapping[str, Namespace]) -> Reading:
    """Read a namespace; `others` are those that may have the other ends of its links. Raises SnapshotError."""
    for _ in range(_ROUNDS - 1):
        with suppress(SnapshotError):
            return _read_once(namespace, others)
    return _read_once(namespace, others)


def _read_once(namespace: Namespace, others: Mapping[str, Namespace]) -> Reading:
    reading = Reading()
    try:
        with ExitStack() as undo:
            undo.enter_context(entered(namespace))
            _read(reading, _Tools(reading, undo))
            # Last: namespaces have numbers only once their links were listed.
            numbers = {label: namespace_id(other) for label, other in others.items()}
            reading.labels = {number: label for label, number in numbers.items() if number is not None}
    except SnapshotError:
        raise
    except OSError as error:
        raise SnapshotError(error.errno, error.strerror, error.filename or namespace.path) from error
    return reading


def _read(reading: Reading, tools: _Tools) -> None:
    families = ["-4", "-6"] if os.path.exists("/proc/thread-self/net/if_inet6") else ["-4"]  # noqa: PTH110 -- a path of the kernel
    link = tools.start("ip", "-json", "-details", batch=_LINKS)
    routing = [tools.start("ip", family, "-json", "-details", batch=_ROUTING) for family in families]
    bridge = tools.start("bridge", "-json", batch=_BRIDGES, has_content=_has_other_links)
    traffic = tools.start("tc", "-json", "-details", "qdisc", "show", has_content=_has_qdiscs)
    filtering = has_nftables()
    nft = tools.start("nft", "--json", "list", "ruleset", has_content=_has_nft_tables) if filtering else None
    parameters = read()
    found = reading.sections
    if link is not None:
        _links(reading, link, bridge)
    for family, listing in zip(("inet", "inet6"), routing, strict=False):
        if listing is not None:
            routes_of_family, rules_of_family = listing.documents(len(_ROUTING))
            found["routes"] = found.get("routes", {}) | routes(family, routes_of_family)
            found["rules"] = found.get("rules", {}) | rules(family, rules_of_family)
    if traffic is not None:
        (qdiscs_listed,) = traffic.documents(1)
        found["qdiscs"] = qdiscs(qdiscs_listed)
        found["filters"], found["classes"] = filters_and_classes(qdiscs_listed)
    ruleset: list[Any] | None = None if filtering else []  # None: nft is missing
    if nft is not None:
        (listed,) = nft.documents(1)
        ruleset = listed["nftables"] if listed else []
    _firewall(found, ruleset, tools)
    mtus = {entry["ifname"]: entry["mtu"] for entry in reading.entries or ()}
    found["sysctls"], found["link sysctls"] = sysctls(parameters, mtus)


def _links(reading: Reading, link: Listing, bridge: Listing | None) -> None:
    entries, neighbours_listed, proxies = link.documents(len(_LINKS))
    # `ip -details` may list a link without addresses as an empty object, instead of leaving it out.
    reading.entries = [entry for entry in entries if entry]
    reading.sections["addresses"] = addresses(reading.entries)
    flags: Things = {entry["ifname"]: entry["flags"] for entry in reading.entries}
    reading.sections["neighbours"] = neighbours(neighbours_listed, proxies, flags)
    if bridge is not None:
        macs = {entry["ifname"]: entry.get("address", "") for entry in reading.entries}
        forwarding, vlans_listed = bridge.documents(len(_BRIDGES))
        reading.sections["fdb entries"] = forwarding_entries(forwarding, macs)
        reading.sections["vlans"] = vlans(vlans_listed)


def _firewall(found: dict[str, Things], entries: Sequence[Mapping[str, Any]] | None, tools: _Tools) -> None:
    shared, legacy = Saved({}, {}), Saved({}, {})
    for family, tool in (("ip", "iptables"), ("ip6", "ip6tables")):
        if family in shared_tables(entries or ()) and (listing := tools.start(f"{tool}-nft-save")) is not None:
            iptables(shared, family, listing.text())
        if legacy_tables(family) and (listing := tools.start(f"{tool}-legacy-save")) is not None:
            iptables(legacy, f"legacy {family}", listing.text())
    if entries is not None:
        found |= nftables(entries, shared)
    found["iptables rules"] = {**shared.rules, **legacy.rules}
    found["iptables tables"], found["iptables chains"] = legacy.tables_and_chains()


# Most namespaces of a conformance run are new. There a message takes a hundredth of a tool's time.


def _has_nft_tables() -> bool:
    """Tell whether the thread's namespace has tables of nftables: everything else of a ruleset is in one.

    Raises OSError, NetlinkError.
    """
    with Netfilter() as netfilter:
        return bool(netfilter.dump(encode_message(_NFT_MSG_GETTABLE, 0, _EVERY_FAMILY, []), doing="list tables"))


def _has_qdiscs() -> bool:
    """Tell whether it has queueing disciplines with a handle: the kernel's own have none.

    Raises OSError, NetlinkError.
    """
    with RtnlSocket() as rtnl:
        found = rtnl.dump(message(_RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0)), doing="list qdiscs")
    handles = (TCMSG.unpack_from(frame.encoded, HEADER.size)[2] for frame in found)
    return any(handles)


def _has_other_links() -> bool:
    """Tell whether it has links besides `lo`, which is no port and has no forwarding table. Raises OSError."""
    with open("/proc/thread-self/net/dev", encoding="utf-8", errors="surrogateescape") as devices:  # noqa: PTH123 -- a path of the kernel
        return any(not line.lstrip().startswith(_LOOPBACK) for line in devices.readlines()[_HEADER_LINES:])
