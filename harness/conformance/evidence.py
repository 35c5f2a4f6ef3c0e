"""The state of a trial's node, with the node's own folders under the names that plugins see."""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.runtime.node import Node
from harness.runtime.own_folders import LOGS
from harness.snapshot import Snapshot, SnapshotError, described_file, take

MACHINES: Final = "instead of"
"""The key of the machine's own file in the description of the file that a node has in its place; alone if removed."""

_LOCK: Final = "xtables.lock"
"""iptables makes it in /run at any call, and needs it again."""
_LOG: Final = ".log"
_BYTECODE: Final = "__pycache__"
_DISPENSABLE: Final = "-nft-save"
"""The end of the names of tools that tell more about rules which nft shows, too."""


def evidence(node: Node, places: Mapping[str, str], watched: Sequence[Path]) -> Snapshot:
    """Return the state of these namespaces and of the node's folders, without logs.

    `watched` are further folders and files. A file that the node has in place of one of the machine's is described with
    that one, under `MACHINES`. Raises SnapshotError, also if a tool is missing, as leftovers would not be seen.
    """
    own = {source: target for target, source in node.own.sources.items() if target != LOGS}
    layers = {upper: target for target, upper in node.own.layers.items()}
    seen = [folder for folder in watched if not node.own.holds(folder)]
    taken = take(places, [node.var_lib_cni, *own, *layers, *seen], without=node.own.places)
    if unseen := [each for each in taken.missing if _DISPENSABLE not in each]:
        raise SnapshotError(f"the suite needs iproute2 and nftables: {'; '.join(unseen)}")
    files: dict[str, object] = {}
    for name, described in taken.sections["files"].items():
        path, passing = Path(name), _is_passing(Path(name))
        if (target := _seen_as(path, own)) is not None:
            if not passing:
                files[str(target)] = described
        elif (target := _seen_as(path, layers)) is not None:
            if not passing and (changed := _changed(target, path, described)) is not None:
                files[str(target)] = changed
        else:
            files[name] = described
    return replace(taken, sections={**taken.sections, "files": files})


def _seen_as(path: Path, folders: Mapping[Path, Path]) -> Path | None:
    for source, target in folders.items():
        if path.is_relative_to(source):
            return target / path.relative_to(source)
    return None


def _is_passing(path: Path) -> bool:
    return path.name == _LOCK or path.suffix == _LOG or _BYTECODE in path.parts


def _changed(machines: Path, upper: Path, described: object) -> object:
    """Return the description of a file that a layer has, None if the machine has the same."""
    try:
        was: object = described_file(machines)
    except OSError:
        was = None
    if _is_whiteout(upper):
        return None if was is None else {MACHINES: was}
    if was is None or not isinstance(described, dict):
        return described
    return None if described == was else {**described, MACHINES: was}


def _is_whiteout(path: Path) -> bool:
    """Tell whether overlayfs has removed the file (the kernel's Documentation/filesystems/overlayfs.rst)."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0
