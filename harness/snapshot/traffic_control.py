"""Queueing disciplines, their classes and filters, without those that the kernel gives every link by itself."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.snapshot.state import Things
from harness.snapshot.tools import list_again

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
    answers = list_again("tc", "-json", "-details", batch=lines).documents(len(lines))
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
    output = list_again("tc", "-details", "class", "show", "dev", dev).text()
    return [f"{_LEAF.sub('', line).removeprefix('class ').strip()} dev {dev}" for line in output.splitlines()]


def _settled(value: object) -> object:
    """Return the same JSON without handles, counters and the like."""
    if isinstance(value, dict):
        return {key: True if inner is None else _settled(inner) for key, inner in value.items() if key not in _VOLATILE}
    return [_settled(inner) for inner in value] if isinstance(value, list) else value
