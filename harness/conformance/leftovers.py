"""Leftovers on a node: all differences, except changes in files that do not concern containers, and rules of VRFs."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from harness.conformance.evidence import MACHINES
from harness.snapshot import Difference, Snapshot, differences

_RULES_OF_VRFS: Final = {f"{family} 1000: from all l3mdev" for family in ("inet", "inet6")}
"""The kernel makes these with the first VRF of a namespace, keeps them, and makes them once only (drivers/net/vrf.c).

Without them, later VRFs of the namespace would fail.
"""


def leftovers(before: Snapshot, after: Snapshot, container_ids: Collection[str]) -> list[Difference]:
    """Return the differences between two snapshots, without the kernel's own rules for VRFs.

    A file that is in both counts as changed only if it names one of the containers more or less often: it is a
    record of them then. Other files hold hints and counters.
    """
    return [
        each
        for each in changes(before, after)
        if not _is_of_vrfs(each)
        and (
            (each.thing, each.kind) != ("file", "changed")
            or _named(each.before, container_ids) != _named(each.after, container_ids)
        )
    ]


def changes(before: Snapshot, after: Snapshot) -> list[Difference]:
    """Return the differences between two snapshots, also from the machine's own files in folders that are layered."""
    both = [snapshot.sections.get("files", {}) for snapshot in (before, after)]
    told = [item for files in both for item in files.items()]
    machines = {name: file[MACHINES] for name, file in told if isinstance(file, dict) and MACHINES in file}
    old, new = (
        replace(snapshot, sections={**snapshot.sections, "files": _whole(files, machines)})
        for snapshot, files in zip((before, after), both, strict=True)
    )
    return differences(old, new)


def _whole(files: Mapping[str, object], machines: Mapping[str, object]) -> dict[str, object]:
    """Return the files with those of the machine for which there is nothing else, and without removed ones."""
    whole = dict(machines)
    for name, told in files.items():
        if isinstance(told, dict) and MACHINES in told:
            whole[name] = {key: value for key, value in told.items() if key != MACHINES}
        else:
            whole[name] = told
    return {name: told for name, told in whole.items() if told != {}}


def _is_of_vrfs(difference: Difference) -> bool:
    return difference.thing == "rule" and difference.kind == "appeared" and difference.name in _RULES_OF_VRFS


def _named(file: object, container_ids: Collection[str]) -> dict[str, int]:
    """Return how often a snapshot's text of a file names each of the containers; long texts are cut off."""
    text = file.get("text", "") if isinstance(file, dict) else ""
    return {each: text.count(each) for each in container_ids}
