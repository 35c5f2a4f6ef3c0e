"""The state of a trial's node, with the node's own folders under the names that plugins see."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.runtime.node import Node
from harness.runtime.own_folders import LOGS
from harness.snapshot import Snapshot, SnapshotError, take

__all__ = ["evidence"]

_LOCK: Final = "xtables.lock"
"""iptables makes it in /run at any call, and needs it again."""
_LOG: Final = ".log"
_DISPENSABLE: Final = "-nft-save"
"""The end of the names of tools that tell more about rules which nft shows, too."""


def evidence(node: Node, places: Mapping[str, str], watched: Sequence[Path]) -> Snapshot:
    """Return the state of these namespaces and of the node's folders, without logs.

    `watched` are further folders and files. Raises SnapshotError, also if a tool is missing, as leftovers would not be
    seen.
    """
    own = {source: target for target, source in node.own.sources.items() if target != LOGS}
    seen = [folder for folder in watched if not node.own.holds(folder)]
    taken = take(places, [node.var_lib_cni, *own, *seen], without=node.own.places)
    if unseen := [each for each in taken.missing if _DISPENSABLE not in each]:
        raise SnapshotError(f"the suite needs iproute2 and nftables: {'; '.join(unseen)}")
    files: dict[str, object] = {}
    for name, described in taken.sections["files"].items():
        told = _as_seen(Path(name), own)
        if told is not None:
            files[told] = described
    return replace(taken, sections={**taken.sections, "files": files})


def _as_seen(path: Path, own: Mapping[Path, Path]) -> str | None:
    for source, target in own.items():
        if path.is_relative_to(source):
            passing = path.name == _LOCK or path.suffix == _LOG
            return None if passing else str(target / path.relative_to(source))
    return str(path)
