"""The record of each pod, written before anything of the pod exists, so that a crash leaves no untracked pod.

A pod is a folder, `<pods>/<namespace>_<name>` (an underscore is in neither), with

- `pod.json`, the record;
- `resolv.conf`, which `cni-harness exec` shows the pod;
- `lock`, held during each operation on the pod (SPEC.md section 3 forbids parallel operations on one container).
"""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.files import locked, write_atomically
from harness.runtime.kubernetes import check_pod
from skel.decoders import dict_of, list_of, raw, record, string
from skel.errors import CniError
from skel.record import Record, field
from skel.result import Result
from skel.strict_json import decode_json

INCOMPLETE: Final = "incomplete"
"""Being made or deleted, or left partly made by a crash or by a plugin's error."""
READY: Final = "ready"


class PodRecordError(Exception):
    """The record of a pod exists but cannot be read."""


class PodNetwork(Record):
    """One network of a pod: the arguments of its ADD, and the result.

    `config` is the network list as text. `result` is in the list's own version, and None until the ADD has succeeded.
    """

    name: str = field(string)
    ifname: str = field(string)
    config: str = field(string, default="")
    source: str = field(string, default="")
    cni_args: dict[str, str] = field(dict_of(string), default=dict)
    capability_args: dict[str, object] = field(dict_of(raw), default=dict)
    result: dict[str, object] | None = field(dict_of(raw), default=None)

    def decoded(self) -> Result:
        """Return the decoded result; an empty one if it is missing or unreadable."""
        if self.result is not None:
            with suppress(CniError):
                return Result.decode_any(self.result, "result")
        return Result()


class Pod(Record):
    """A pod: its names, its sandbox, its networks. `created` is UTC, as RFC 3339 writes it."""

    name: str = field(string)
    namespace: str = field(string)
    uid: str = field(string)
    container_id: str = field(string, "containerID")
    netns: str = field(string)
    state: str = field(string)
    created: str = field(string)
    bin_dirs: list[str] = field(list_of(string), default=list)
    networks: list[PodNetwork] = field(list_of(record(PodNetwork)), default=list)

    @property
    def title(self) -> str:
        """The pod's name in the form that kubectl uses across namespaces."""
        return f"{self.namespace}/{self.name}"


def new_pod(namespace: str, name: str, *, netns: str, bin_dirs: list[str], networks: list[PodNetwork]) -> Pod:
    """Return a pod that does not exist yet, with a new container ID (64 hex digits, as containerd's) and UID."""
    import secrets  # it loads OpenSSL

    return Pod(
        name=name,
        namespace=namespace,
        uid=str(uuid.uuid4()),
        container_id=secrets.token_hex(32),
        netns=netns,
        state=INCOMPLETE,
        created=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        bin_dirs=bin_dirs,
        networks=networks,
    )


class PodStore:
    """The records of one node's pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pod_folder(self, namespace: str, name: str) -> Path:
        """Return the folder of the pod. Raises PodNameError for names that could lead elsewhere."""
        check_pod(namespace, name)
        return self.folder / f"{namespace}_{name}"

    def resolv_conf(self, pod: Pod) -> Path:
        """Return the pod's resolv.conf."""
        return self.pod_folder(pod.namespace, pod.name) / "resolv.conf"

    @contextmanager
    def claimed(self, namespace: str, name: str, *, wait: bool = True) -> Iterator[Pod | None]:
        """Lock the pod for one operation; yields its record, None if the pod does not exist.

        A folder without a record at the end is removed, unless it holds foreign files. Raises LockHeldError if another
        operation has the lock and `wait` is False, PodNameError, PodRecordError.
        """
        with self._held(namespace, name, wait=wait):
            yield self.read(namespace, name)

    def read(self, namespace: str, name: str) -> Pod | None:
        """Return the record of a pod, None if there is none. Raises PodNameError, PodRecordError."""
        return _read(self.pod_folder(namespace, name) / "pod.json")

    def write(self, pod: Pod) -> None:
        """Write the record; from here on the pod is listed and can be deleted. Raises OSError."""
        text = json.dumps(pod.encode(), indent=1, allow_nan=False)
        write_atomically(self.pod_folder(pod.namespace, pod.name) / "pod.json", text.encode() + b"\n")

    def remove(self, pod: Pod) -> None:
        """Remove the record, inside of `claimed`, whose end removes the other files. Raises OSError."""
        (self.pod_folder(pod.namespace, pod.name) / "pod.json").unlink(missing_ok=True)

    def forget(self, namespace: str, name: str) -> None:
        """Remove the record of a pod without reading it: it may be unreadable. Raises PodNameError, OSError."""
        with self._held(namespace, name) as folder:
            (folder / "pod.json").unlink(missing_ok=True)

    def names(self) -> list[tuple[str, str]]:
        """Return namespace and name of every pod, sorted; pods with unreadable records are included."""
        folders = (path.parent.name.partition("_") for path in self._paths())
        return [(namespace, name) for namespace, _, name in folders]

    def all(self, *, on_error: Callable[[PodRecordError], object] | None = None) -> list[Pod]:
        """Return every pod, sorted by namespace and name.

        Raises PermissionError, PodRecordError. `on_error` gets each PodRecordError instead, and the pod is left out.
        """
        found = []
        for path in self._paths():
            try:
                pod = _read(path)
            except PodRecordError as error:
                if on_error is None:
                    raise
                on_error(error)
            else:
                found += [pod] if pod is not None else []
        return found

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*_*/pod.json"))

    @contextmanager
    def _held(self, namespace: str, name: str, *, wait: bool = True) -> Iterator[Path]:
        """Hold the pod's lock; yields the pod's folder."""
        folder = self.pod_folder(namespace, name)
        with locked(folder / "lock", wait=wait):
            try:
                yield folder
            finally:
                if not (folder / "pod.json").exists():
                    _clear(folder)


def _clear(folder: Path) -> None:
    """Remove the files of `PodStore` from a folder, the lock last, then the folder if it is empty."""
    with suppress(OSError):
        for name in ("pod.json", "resolv.conf"):
            # A crash in `write_atomically` leaves the others.
            for path in (folder / name, *folder.glob(f".{name}.*.tmp")):
                path.unlink(missing_ok=True)
        (folder / "lock").unlink()
        folder.rmdir()


def _read(path: Path) -> Pod | None:
    try:
        pod = Pod.decode(decode_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, CniError) as error:
        raise PodRecordError(f"{path}: not the record of a pod: {error}") from error
    if path.parent.name != f"{pod.namespace}_{pod.name}":
        raise PodRecordError(f"{path}: not the record of a pod: it is of pod {pod.title}")
    return pod
