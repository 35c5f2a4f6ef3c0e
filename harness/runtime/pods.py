"""The record of each pod, written before anything of the pod exists, so that a crash leaves no untracked pod.

A pod is a folder below `<node>/pods`: `<namespace>_<name>` for a bare pod, which `add` makes, and
`<namespace>_<name>_<container ID>` for a sandbox, which a kubelet asks for: an ended one and the next have one name.
(An underscore is in no part.) In it are

- `pod.json`, the record;
- `resolv.conf`, and for a sandbox the other files that its containers share;
- `lock`, held during each operation on the pod (SPEC.md section 3 forbids parallel operations on one container).

Before format 2, sandboxes were in `<node>/sandboxes/<container ID>/sandbox.json`. They stay there until they are gone.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

from harness.files import LockHeldError, locked, write_atomically
from harness.locations import DEFAULT_BIN_DIR
from harness.runtime.kubernetes import PodNameError, check_pod
from harness.runtime.pod_record import IN_USE, Pod, rfc3339
from skel.errors import CniError
from skel.strict_json import decode_json

FORMAT: Final = 2
"""Of the records that are written here. Those before it had no number."""

_FORMER: Final = "sandboxes"
"""The folder of sandboxes of format 1."""
_RECORDS: Final = ("pod.json", "sandbox.json")
"""The second is that of a sandbox in format 1."""
_FILES: Final = (*_RECORDS, "resolv.conf", "hosts", "hostname")
_ESCAPED: Final = re.compile(r"[^A-Za-z0-9.-]")
_LONGEST: Final = (62, 126)
"""Characters of namespace and name in a sandbox's folder: with 64 of the ID they are as many as a file name has."""


class PodRecordError(Exception):
    """The record of a pod exists but cannot be read."""


class PodExistsError(Exception):
    """Another pod has the name."""

    def __init__(self, container_id: str) -> None:
        super().__init__(f'it is that of "{container_id}"')


P = TypeVar("P", bound=Pod)


class PodStore(Generic[P]):
    """The records of one node's pods, each read as a `kind`. Threads and processes may share them."""

    def __init__(self, folder: Path, kind: type[P]) -> None:
        self.folder = folder
        self._former = folder.parent / _FORMER
        self._kind = kind
        self._read_before: dict[Path, tuple[tuple[int, ...], P]] = {}

    def pod_folder(self, namespace: str, name: str) -> Path:
        """Return the folder of a bare pod. Raises PodNameError for names that could lead elsewhere."""
        check_pod(namespace, name)
        return self.folder / f"{namespace}_{name}"

    def path(self, pod: Pod) -> Path:
        """Return the folder of a pod. Raises PodNameError."""
        if pod.is_bare:
            return self.pod_folder(pod.namespace, pod.name)
        former = self._former / pod.container_id
        return former if former.is_dir() else self.folder / f"{_key(pod.namespace, pod.name)}_{pod.container_id}"

    def resolv_conf(self, pod: Pod) -> Path:
        """Return the pod's resolv.conf."""
        return self.path(pod) / "resolv.conf"

    @contextmanager
    def claimed(self, namespace: str, name: str, *, wait: bool = True) -> Iterator[P | None]:
        """Lock a bare pod for one operation; yields its record, None if the pod does not exist.

        A folder without a record at the end is removed, unless it holds foreign files. Raises LockHeldError if another
        operation has the lock and `wait` is False, PodNameError, PodRecordError.
        """
        with _held(self.pod_folder(namespace, name), wait=wait):
            yield self.read(namespace, name)

    @contextmanager
    def claimed_again(self, pod: Pod, *, wait: bool = True) -> Iterator[P | None]:
        """Lock a pod that has been read; yields its present record, None if it is gone. Otherwise as `claimed`."""
        folder = self.path(pod)
        if not folder.is_dir():
            yield None
            return
        with _held(folder, wait=wait):
            yield self._read(folder)

    @contextmanager
    def reserved(self, pod: P, is_other: Callable[[P], bool]) -> Iterator[None]:
        """Write the record of a new sandbox, and hold its lock.

        Raises PodExistsError if a bare pod has the name, or a sandbox that is not `is_other`; PodRecordError, OSError.
        """
        with _held(self.path(pod)):
            with _held(self._bare_folder(pod.namespace, pod.name)):
                for known in self.named(pod.namespace, pod.name):
                    if known.is_bare or not is_other(known):
                        raise PodExistsError(known.container_id)
                self.write(pod)
            yield

    def read(self, namespace: str, name: str) -> P | None:
        """Return the record of a bare pod, None if there is none. Raises PodNameError, PodRecordError."""
        return self._read(self.pod_folder(namespace, name))

    def named(self, namespace: str, name: str) -> list[P]:
        """Return the pods of a name: a bare one first, then sandboxes, ended ones last. Raises PodRecordError."""
        folders = [*self.folder.glob(f"{_key(namespace, name)}_*"), *self._former.glob("*/")]
        found = [pod for folder in folders if (pod := self._read(folder)) is not None]
        sandboxes = [pod for pod in found if (pod.namespace, pod.name) == (namespace, name)]
        bare = self._read(self._bare_folder(namespace, name))
        sandboxes.sort(key=lambda pod: (pod.state in IN_USE, pod.created), reverse=True)
        return [*([bare] if bare is not None else []), *sandboxes]

    def by_id(self, container_id: str) -> P | None:
        """Return the sandbox of a container ID, None if there is none. Raises PodRecordError."""
        for folder in (self._former / container_id, *self.folder.glob(f"*_{container_id}")):
            if (pod := self._read(folder)) is not None and not pod.is_bare:
                return pod
        return None

    def write(self, pod: P) -> None:
        """Write the record; from here on the pod is listed and can be deleted. Raises OSError."""
        pod.format = FORMAT
        folder = self.path(pod)
        content = json.dumps(pod.encode(), indent=1, allow_nan=False).encode() + b"\n"
        write_atomically(folder / "pod.json", content, mode=0o644 if pod.is_bare else 0o600)
        (folder / "sandbox.json").unlink(missing_ok=True)

    def remove(self, pod: Pod) -> None:
        """Remove the record, inside of `claimed`, whose end removes the other files. Raises OSError."""
        for name in _RECORDS:
            (self.path(pod) / name).unlink(missing_ok=True)

    def forget(self, namespace: str, name: str) -> None:
        """Remove the record of a bare pod without reading it: it may be unreadable. Raises PodNameError, OSError."""
        folder = self.pod_folder(namespace, name)
        with _held(folder):
            (folder / "pod.json").unlink(missing_ok=True)

    def has_records(self) -> bool:
        """Tell whether there is a pod, also one whose record is unreadable."""
        return bool(self._paths())

    def names(self) -> list[tuple[str, str]]:
        """Return namespace and name of every bare pod, sorted; pods with unreadable records are included."""
        folders = (path.parent.name.partition("_") for path in self._paths())
        return [(namespace, name) for namespace, _, name in folders if name and "_" not in name]

    def all(self, *, on_error: Callable[[PodRecordError], object] | None = None) -> list[P]:
        """Return every pod, sorted by namespace and name. A record that has not changed is not read again.

        Raises PermissionError, PodRecordError. `on_error` gets each PodRecordError instead, and the pod is left out.
        """
        found = []
        paths = self._paths()
        for gone in self._read_before.keys() - set(paths):  # a kubelet lives on, and sandboxes come and go
            self._read_before.pop(gone, None)
        for path in paths:
            try:
                pod = self._read_once(path)
            except PodRecordError as error:
                if on_error is None:
                    raise
                on_error(error)
            else:
                found += [pod] if pod is not None else []
        return found

    def remove_leftovers(self) -> None:
        """Remove folders without a record, which a killed process left, unless an operation goes on in them."""
        for folder in [*self.folder.glob("*_*/"), *self._former.glob("*/")]:
            if _record_of(folder) is None:
                with suppress(LockHeldError), _held(folder, wait=False):
                    pass
        with suppress(OSError):  # sandboxes of format 1 remain, or there never were any
            self._former.rmdir()

    def _bare_folder(self, namespace: str, name: str) -> Path:
        """Return the folder of a bare pod; one that none can have if the names are not Kubernetes'."""
        with suppress(PodNameError):
            return self.pod_folder(namespace, name)
        return self.folder / _key(namespace, name)

    def _paths(self) -> list[Path]:
        """Return the paths of records, without those of format 1 that have been written again."""
        former = [path for folder in self._former.glob("*/") if (path := _record_of(folder)) is not None]
        return sorted(self.folder.glob("*_*/pod.json")) + sorted(former)

    def _read(self, folder: Path) -> P | None:
        path = _record_of(folder)
        return self._decoded(path) if path is not None else None

    def _read_once(self, path: Path) -> P | None:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return None
        stamp = stat.st_ino, stat.st_mtime_ns, stat.st_size
        before, pod = self._read_before.get(path, (None, None))
        if pod is None or before != stamp:
            if (pod := self._decoded(path)) is None:
                return None
            self._read_before[path] = stamp, pod
        return pod

    def _decoded(self, path: Path) -> P | None:
        try:
            document = decode_json(path.read_bytes())
            pod = self._kind.decode(_of_format_1(document, path) if path.name == "sandbox.json" else document)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, CniError) as error:
            raise PodRecordError(f"{path}: not the record of a pod: {error}") from error
        if pod.format > FORMAT:
            raise PodRecordError(f"{path}: format {pod.format} is newer than this program, which knows {FORMAT}")
        bare = f"{pod.namespace}_{pod.name}"
        folder = path.parent.name
        if folder != bare if pod.is_bare else not folder.endswith(pod.container_id):
            raise PodRecordError(f"{path}: not the record of a pod: it is of pod {pod.title}")
        return pod


def _record_of(folder: Path) -> Path | None:
    return next((path for name in _RECORDS if (path := folder / name).exists()), None)


@contextmanager
def _held(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a pod's folder; without a record at the end, the folder is removed."""
    with locked(folder / "lock", wait=wait):
        try:
            yield
        finally:
            if _record_of(folder) is None:
                _clear(folder)


def _clear(folder: Path) -> None:
    """Remove the files of pods from a folder, the lock last, then the folder if it is empty."""
    with suppress(OSError):
        for name in _FILES:
            # A crash in `write_atomically` leaves the others.
            for path in (folder / name, *folder.glob(f".{name}.*.tmp")):
                path.unlink(missing_ok=True)
        (folder / "lock").unlink()
        folder.rmdir()
        if folder.parent.name == _FORMER:
            folder.parent.rmdir()


def _key(namespace: str, name: str) -> str:
    """Return the first part of the name of a sandbox's folder: the Container Runtime Interface takes any name."""
    parts = (_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", part) for part in (namespace, name))
    return "_".join(part[:longest] for part, longest in zip(parts, _LONGEST, strict=True))


def _of_format_1(document: object, path: Path) -> object:
    """Return the record of a sandbox of format 1, at `path`, in the present form.

    It has no folders of plugins: those are the folders that a program of that time used without `--bin-dir`.
    """
    if not isinstance(document, dict):
        return document
    config = document.get("config")
    metadata = config.get("metadata") if isinstance(config, dict) else None
    names = metadata if isinstance(metadata, dict) else {}
    created = datetime.fromtimestamp(int(document.get("createdAt", 0)) / 1e9, UTC)
    node = path.parents[2]
    state_dir = node.parents[1] if node.parent.name == "nodes" else node
    return {
        **{key: document.get(key) for key in ("state", "networks", "pause")},
        **{key: names.get(key) for key in ("name", "namespace", "uid")},
        "containerID": document.get("id"),
        "netns": document.get("netns", ""),
        "created": rfc3339(created),
        "binDirs": [str(DEFAULT_BIN_DIR), str(state_dir / "bin")],
        "sandbox": {key: document.get(key) for key in ("config", "createdAt", "hostname", "ips")},
    }
