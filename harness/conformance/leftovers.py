"""What is left on a node: all that differs, but for what files hold that says nothing of containers."""

from collections.abc import Collection

from harness.snapshot import Difference, Snapshot, differences

__all__ = ["leftovers"]


def leftovers(before: Snapshot, after: Snapshot, container_ids: Collection[str]) -> list[Difference]:
    """Return what differs between two snapshots.

    Of a file that is in both, what it holds counts where it names one of the containers more or less often: it is a
    record of them then. Hints and counters live in files, too.
    """
    return [
        each
        for each in differences(before, after)
        if (each.thing, each.kind) != ("file", "changed")
        or _named(each.before, container_ids) != _named(each.after, container_ids)
    ]


def _named(file: object, container_ids: Collection[str]) -> dict[str, int]:
    """Return how often each of the containers is named in what a snapshot has of a file: not all that is long."""
    text = file.get("text", "") if isinstance(file, dict) else ""
    return {each: text.count(each) for each in container_ids}
