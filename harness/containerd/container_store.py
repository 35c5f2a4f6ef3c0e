"""The containers of a node as folders, `containers/<id>/` below the node's folder, each whole or not there.

| file | writer | content |
| --- | --- | --- |
| `record.json` | CreateContainer | ContainerRecord; it never changes |
| `launch.json` | StartContainer | how the shim makes the process; the container was started |
| `shim.lock` | shim | empty; locked for as long as the shim lives |
| `shim.json`, `process.json` | shim | PID and start time of the shim, and of the container's first process |
| `exit.json` | shim | exit code, time and reason |
| `stop.lock` | StopContainer | not empty once the stop signal was sent |
| `bundle/`, `upper/`, `work/` | StartContainer, shim | OCI bundle, and the files that the container changed |
| `volumes/` | StartContainer | the volumes that the image declares |

A folder appears and disappears by rename(2), so a crash leaves a folder with a hidden name at worst.
"""

import fcntl
import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from harness.cri.messages import ContainerConfig, ContainerUser
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.files import locked, remove_tree, write_atomically
from harness.runtime.pod_record import PauseProcess
from skel.decoders import integer, list_of, optional, string
from skel.decoders import record as record_of
from skel.errors import CniError
from skel.record import Record, field

_R = TypeVar("_R", bound=Record)

# struct flock of 64-bit systems (asm-generic/fcntl.h): the lock of a whole file by its open file description.
_FLOCK: Final = struct.Struct("hhqqi4x")
_WRITE_LOCK: Final = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)

_NEW: Final = ".new-"
_REMOVED: Final = ".removed-"


class ContainerRecord(Record):
    """A container as it was created. `log_path` is absolute, or empty; `image_id` is empty in the image-less mode."""

    id: str = field(string)
    name: str = field(string)
    pod_sandbox_id: str = field(string)
    created_at: int = field(integer)
    config: ContainerConfig = field(record_of(ContainerConfig))
    image_id: str = field(string, default="")
    log_path: str = field(string, default="")
    stop_signal: int = field(integer)
    arguments: list[str] = field(list_of(string))


class ProcessRecord(PauseProcess):
    """A process, and the time of its start in nanoseconds since 1970."""

    started_at: int = field(integer)


class Launch(Record):
    """What calls read of `launch.json` (harness.containerd.container_launch): the user, and what ends with the shim."""

    user: ContainerUser | None = field(optional(record_of(ContainerUser)), default=None)
    delete: list[str] = field(list_of(string), default=list)
    control_groups: list[str] = field(list_of(string), "control_groups", default=list)


class Exit(Record):
    """The end of a container; the time is in nanoseconds since 1970."""

    code: int = field(integer)
    finished_at: int = field(integer)
    reason: str = field(string, default="")
    message: str = field(string, default="")


class ContainerFolder:
    """One container's folder."""

    def __init__(self, path: Path) -> None:
        """Take the folder, which may be missing."""
        self.path = path
        self.bundle = path / "bundle"
        self.rootfs = self.bundle / "rootfs"
        self.launch = path / "launch.json"
        self._record: ContainerRecord | None = None

    def record(self) -> ContainerRecord:
        """Return the record. Raises NotFoundError, RuntimeServiceError if it cannot be read."""
        if self._record is None:
            self._record = _read(self.path / "record.json", ContainerRecord)
        if self._record is None:
            raise NotFoundError(f'container "{self.path.name}" not found')
        return self._record

    def launched(self) -> Launch | None:
        """Return how the container was started, None if it was not."""
        return _read(self.launch, Launch)

    def exit(self) -> Exit | None:
        """Return how the container ended, None if the shim has not written it."""
        return _read(self.path / "exit.json", Exit)

    def process(self) -> ProcessRecord | None:
        """Return the container's first process, None if the shim has not made it."""
        return _read(self.path / "process.json", ProcessRecord)

    def shim(self) -> ProcessRecord | None:
        """Return the shim's own process, None if it has not got so far."""
        return _read(self.path / "shim.json", ProcessRecord)

    def stop_once(self, signal: Callable[[], None]) -> None:
        """Call `signal`, unless an earlier call of any program has done so. A missing folder is fine."""
        try:
            fd = os.open(self.path / "stop.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not os.fstat(fd).st_size:
                signal()
                os.write(fd, b"sent\n")  # later: a kill between the two repeats the signal, and loses none
        finally:
            os.close(fd)

    def shim_is_alive(self) -> bool:
        """Tell whether the shim, or a call in its place, holds the lock. It ends with its holder, however that ends."""
        try:
            fd = os.open(self.path / "shim.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _WRITE_LOCK)
        finally:
            os.close(fd)
        kind: int = _FLOCK.unpack(answer)[0]
        return kind != fcntl.F_UNLCK

    def take_lock(self) -> int | None:
        """Take the shim's lock and return its file descriptor, which the shim inherits; None if it is taken."""
        try:
            fd = os.open(self.path / "shim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise NotFoundError(f'container "{self.path.name}" not found') from None
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WRITE_LOCK)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def write_exit(self, end: Exit) -> None:
        """Store the end of a container whose shim cannot."""
        write_atomically(self.path / "exit.json", json.dumps(end.encode()).encode(), mode=0o600)


class ContainerStore:
    """All containers of a node."""

    def __init__(self, folder: Path) -> None:
        """Take the node's folder, and make nothing."""
        self.folder = folder / "containers"
        self._lock = folder / "containers.lock"

    def add(self, record: ContainerRecord) -> ContainerFolder:
        """Store a container. Raises RuntimeServiceError if another one has its name, as containerd does."""
        with locked(self._lock):
            for other in self.all():
                if other.record().name == record.name:
                    raise RuntimeServiceError(
                        f'failed to reserve container name "{record.name}": name "{record.name}" is reserved for '
                        f'"{other.record().id}"'
                    )
            new = self.folder / f"{_NEW}{record.id}"
            new.mkdir(parents=True, mode=0o700)
            write_atomically(new / "record.json", json.dumps(record.encode()).encode(), mode=0o600)
            new.rename(self.folder / record.id)
        return self.folder_of(record.id)

    def folder_of(self, container_id: str) -> ContainerFolder:
        """Return the folder of a container, which may be missing."""
        if not container_id.isalnum():  # no path leads out of the store
            raise NotFoundError(f'container "{container_id}" not found')
        return ContainerFolder(self.folder / container_id)

    def all(self) -> Iterator[ContainerFolder]:
        """Yield the folders of all containers whose record can be read."""
        for path in self._paths():
            folder = ContainerFolder(path)
            with suppress(RuntimeServiceError):  # it was removed meanwhile, or `leftovers` has it
                if not path.name.startswith("."):
                    folder.record()
                    yield folder

    def remove(self, folder: ContainerFolder) -> None:
        """Remove a container's folder; its process must have ended, and its mounts with its shim."""
        hidden = self.folder / f"{_REMOVED}{folder.path.name}"
        with suppress(FileNotFoundError):
            folder.path.rename(hidden)
        discard(hidden)

    def leftovers(self) -> list[ContainerFolder]:
        """Return folders of crashed calls, and those whose record cannot be read. No other call may be running."""
        whole = {folder.path for folder in self.all()}
        return [ContainerFolder(path) for path in self._paths() if path not in whole]

    def _paths(self) -> list[Path]:
        try:
            return list(self.folder.iterdir())
        except FileNotFoundError:
            return []


def discard(folder: Path) -> None:
    """Remove a container's files; the rest of a folder that cannot be removed is among the leftovers."""
    with suppress(OSError):
        remove_tree(folder)


def _read(path: Path, kind: type[_R]) -> _R | None:
    try:
        return kind.decode(json.loads(path.read_bytes()), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (CniError, ValueError) as error:
        raise RuntimeServiceError(f"{path}: {error}") from None
