"""Leftovers on a node: all differences, except changes in files that do not concern containers."""

from collections.abc import Collection

from harness.snapshot import Difference, Snapshot, differences

__all__ = ["leftovers"]


def leftovers(before: Snapshot, after: Snapshot, container_ids: Collection[str]) -> list[Difference]:
    """Return the differences between two snapshots.

    A file that is in both counts as changed only if it names one of the containers more or less often: it is a
    record of them then. Other files hold hints and counters.
    """
    return [
        each
        for each in differences(before, after)
        if (each.thing, each.kind) != ("file", "changed")
        or _named(each.before, container_ids) != _named(each.after, container_ids)
    ]


def _named(file: object, container_ids: Collection[str]) -> dict[str, int]:
    """Return how often a snapshot's text of a file names each of the containers; long texts are cut off."""
    text = file.get("text", "") if isinstance(file, dict) else ""
    return {each: text.count(each) for each in container_ids}
