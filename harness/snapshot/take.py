"""Taking a snapshot: all namespaces at the same time, by processes and by this one; and the content of folders."""

import os
import stat
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import file_digest
from pathlib import Path
from typing import Final

from harness.snapshot.iproute2 import links
from harness.snapshot.reading import Reading, read_namespace
from harness.snapshot.state import ELSEWHERE, FILES, Snapshot, SnapshotError, Things, check_label
from netlink.namespace import Namespace, NotANamespaceError, open_namespace

_LONGEST_TEXT: Final = 4096  # bytes; of a longer file, only size and digest are kept

_KINDS: Final = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}

_AT_ONCE = 4  # threads, which wait for tools most of the time


def take(namespaces: Mapping[str, str], folders: Sequence[Path] = (), *, without: Container[str] = ()) -> Snapshot:
    """Return the state of network namespaces, by label ("node", "pod1") and path, and of the content of folders.

    The paths of `without` are left out of the folders. It changes nothing. A namespace that is gone is recorded as
    gone. Raises SnapshotError, an OSError, with the message of the tool that failed, or for an invalid label.
    """
    for label in namespaces:
        check_label(label)
    sections: dict[str, Things] = {}
    missing: set[str] = set()
    with ExitStack() as opened:
        there = {label: namespace for label, path in namespaces.items() if (namespace := _open(path, opened))}
        readings = _read_all(there)
    for label, path in namespaces.items():
        sections[f"{label}/namespace"] = {path: {"state": "there" if label in there else "gone"}}
        if label in readings:
            missing |= readings[label].missing
            sections |= _sections(label, readings)
    if folders:
        sections[FILES] = _files(folders, without)
    return Snapshot(sections, tuple(sorted(missing)), dict(namespaces), tuple(map(str, folders)))


def _open(path: str, opened: ExitStack) -> Namespace | None:
    try:
        return opened.enter_context(open_namespace(path))
    except (FileNotFoundError, NotANamespaceError):
        return None
    except OSError as error:
        raise SnapshotError(error.errno, error.strerror, path) from error


def _read_all(namespaces: Mapping[str, Namespace]) -> dict[str, Reading]:
    def read(label: str) -> Reading:
        return read_namespace(namespaces[label], namespaces)

    if len(namespaces) < 2:  # noqa: PLR2004 -- a thread for one would only cost its start
        return {label: read(label) for label in namespaces}
    with ThreadPoolExecutor(min(_AT_ONCE, len(namespaces)), thread_name_prefix="snapshot") as pool:
        return dict(zip(namespaces, pool.map(read, namespaces), strict=True))


def _sections(label: str, readings: Mapping[str, Reading]) -> dict[str, Things]:
    reading = readings[label]
    told = {} if reading.entries is None else {"links": links(reading.entries, _peer_place(reading, readings))}
    return {f"{label}/{what}": things for what, things in {**told, **reading.sections}.items()}


def _peer_place(reading: Reading, readings: Mapping[str, Reading]) -> Callable[[int, int], str]:
    def place(number: int, index: int) -> str:
        label = reading.labels.get(number)
        if label is None:
            return ELSEWHERE
        names = (entry["ifname"] for entry in readings[label].entries or () if entry["ifindex"] == index)
        return f"{next(names, '?')} in {label}"

    return place


def _files(folders: Iterable[Path], without: Container[str]) -> Things:
    """Return the folders and everything below them, by path; nothing for a missing folder. Raises SnapshotError.

    Symbolic links are not followed. Files that disappear meanwhile are left out, and so are the paths of `without`,
    with everything below them.
    """
    found: Things = {}
    try:
        for folder in folders:
            _describe_all(folder, found, without)
    except OSError as error:
        raise SnapshotError(error.errno, error.strerror, error.filename) from error
    return dict(sorted(found.items()))


def _describe_all(path: Path, found: Things, without: Container[str]) -> None:
    try:
        described = described_file(path)
        names = os.listdir(path) if described["kind"] == "folder" else []  # noqa: PTH208 -- a Path for each takes longer
    except FileNotFoundError:
        return
    found[str(path)] = described
    for name in names:
        if f"{path}/{name}" not in without:
            _describe_all(path / name, found, without)


def described_file(path: Path) -> Things:
    """Return the kind, mode and content of one file or folder. Raises OSError."""
    status = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "unknown")
    described: Things = {"kind": kind, "mode": f"{stat.S_IMODE(status.st_mode):04o}"}
    if (status.st_uid, status.st_gid) != (0, 0):
        described["owner"] = f"{status.st_uid}:{status.st_gid}"
    if kind == "symbolic link":
        return {"kind": kind, "target": str(path.readlink())}
    if kind == "file":
        described |= _content(path)
    return described


def _content(path: Path) -> Things:
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        described: Things = {"size": (size := stream.tell()), "sha256": digest}
        stream.seek(0)
        with suppress(UnicodeDecodeError):
            if size <= _LONGEST_TEXT and "\0" not in (text := stream.read(_LONGEST_TEXT).decode()):
                described["text"] = text
    return described
