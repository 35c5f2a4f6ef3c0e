"""Taking a snapshot: all namespaces are read at the same time, by processes and by this one."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from harness.snapshot.files import files
from harness.snapshot.iproute2 import links
from harness.snapshot.reading import Reading, read_namespace
from harness.snapshot.state import ELSEWHERE, FILES, Snapshot, SnapshotError, Things, check_label
from netlink.namespace import Namespace, NotANamespaceError, open_namespace

_AT_ONCE = 4


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
    try:
        return files(folders, without)
    except OSError as error:
        raise SnapshotError(error.errno, error.strerror, error.filename) from error
