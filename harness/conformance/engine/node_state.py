"""The state of a trial's node, and its leftovers: the differences between two states."""

import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.runtime.node import Node
from harness.runtime.own_folders import LOGS
from harness.snapshot import Difference, Snapshot, SnapshotError, described_file, differences, take

_MACHINES: Final = "instead of"
"""The key of the machine's own file in the description of the file that a node has in its place; alone if removed."""

_LOCK: Final = "xtables.lock"
"""iptables makes it in /run at any call, and needs it again."""
_LOG: Final = ".log"
_BYTECODE: Final = "__pycache__"
_DISPENSABLE: Final = "-nft-save"
"""The end of the names of tools that tell more about rules which nft shows, too."""
_RULES_OF_VRFS: Final = {f"{family} 1000: from all l3mdev" for family in ("inet", "inet6")}
"""The kernel makes these with the first VRF of a namespace, keeps them, and makes them once only (drivers/net/vrf.c).

Without them, later VRFs of the namespace would fail.
"""


def node_state(node: Node, places: Mapping[str, str], watched: Sequence[Path]) -> Snapshot:
    """Return the state of these namespaces and of the node's folders, without logs.

    `watched` are further folders and files. A file that the node has in place of one of the machine's is described with
    that one, under `_MACHINES`. Raises SnapshotError, also if a tool is missing, as leftovers would not be seen.
    """
    own = {source: target for target, source in node.own.sources.items() if target != LOGS}
    layers = {upper: target for target, upper in node.own.layers.items()}
    seen = [folder for folder in watched if not node.own.holds(folder)]
    taken = take(places, [node.var_lib_cni, *own, *layers, *seen], without=node.own.places)
    if unseen := [each for each in taken.missing if _DISPENSABLE not in each]:
        raise SnapshotError(f"the suite needs iproute2 and nftables: {'; '.join(unseen)}")
    files: dict[str, object] = {}
    for name, described in taken.sections["files"].items():
        path = Path(name)
        passing = path.name == _LOCK or path.suffix == _LOG or _BYTECODE in path.parts
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


def _changed(machines: Path, upper: Path, described: object) -> object:
    """Return the description of a file that a layer has, None if the machine has the same."""
    try:
        was: object = described_file(machines)
    except OSError:
        was = None
    if _is_whiteout(upper):
        return None if was is None else {_MACHINES: was}
    if was is None or not isinstance(described, dict):
        return described
    return None if described == was else {**described, _MACHINES: was}


def _is_whiteout(path: Path) -> bool:
    """Tell whether overlayfs has removed the file (the kernel's Documentation/filesystems/overlayfs.rst)."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def leftovers(before: Snapshot, after: Snapshot, container_ids: Collection[str]) -> list[Difference]:
    """Return the differences between two snapshots, without the kernel's own rules for VRFs.

    A file that is in both counts as changed only if it names one of the containers more or less often: it is a
    record of them then. Other files hold hints and counters.
    """
    return [
        each
        for each in changes(before, after)
        if not (each.thing == "rule" and each.kind == "appeared" and each.name in _RULES_OF_VRFS)
        and (
            (each.thing, each.kind) != ("file", "changed")
            or _named(each.before, container_ids) != _named(each.after, container_ids)
        )
    ]


def changes(before: Snapshot, after: Snapshot) -> list[Difference]:
    """Return the differences between two snapshots, also from the machine's own files in folders that are layered."""
    both = [snapshot.sections.get("files", {}) for snapshot in (before, after)]
    told = [item for files in both for item in files.items()]
    machines = {name: file[_MACHINES] for name, file in told if isinstance(file, dict) and _MACHINES in file}
    old, new = (
        replace(snapshot, sections={**snapshot.sections, "files": _whole(files, machines)})
        for snapshot, files in zip((before, after), both, strict=True)
    )
    return differences(old, new)


def _whole(files: Mapping[str, object], machines: Mapping[str, object]) -> dict[str, object]:
    """Return the files with those of the machine for which there is nothing else, and without removed ones."""
    whole = dict(machines)
    for name, told in files.items():
        if isinstance(told, dict) and _MACHINES in told:
            whole[name] = {key: value for key, value in told.items() if key != _MACHINES}
        else:
            whole[name] = told
    return {name: told for name, told in whole.items() if told != {}}


def _named(file: object, container_ids: Collection[str]) -> dict[str, int]:
    """Return how often a snapshot's text of a file names each of the containers; long texts are cut off."""
    text = file.get("text", "") if isinstance(file, dict) else ""
    return {each: text.count(each) for each in container_ids}
