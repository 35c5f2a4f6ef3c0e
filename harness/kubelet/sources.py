"""Which pods kubelet has: those of a folder of manifests, and those that `run` has recorded (kubelet's config mux).

A file or folder of manifests has static pods (config/file.go, config/common.go). Changes are found by stat(2), not
inotify(7). kubelet uses both: inotify for speed, and a new listing every 20 seconds. inotify loses some events, and
never has others: of network and overlay file systems, of symbolic links to other folders, of a folder that is made
later. A stat of 100 files takes a millisecond, so it can run each second and needs no second way. It also needs no
library and no open descriptor, and a process that was stopped for a while misses nothing.
"""

import hashlib
import json
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from api.defaults import with_defaults
from api.errors import aggregate, quoted
from api.manifest import Manifests, parse_manifests
from api.pod import V1ConfigMap, V1Pod, V1Toleration
from api.validation.pod import validate_pod
from harness.files import read_regular
from harness.kubelet.labels import CONFIG_HASH, CONFIG_SEEN, CONFIG_SOURCE
from harness.kubelet.pod_records import PodRecords

_FRESH_NS: Final = 2_000_000_000
"""A file that changed this recently may change again without another time stamp: some file systems count in seconds."""

RUN_SOURCE: Final = "run"
"""The source of a pod that `cni-harness run` has recorded; that of a static pod is `file`."""

_PERIOD_S: Final = 0.5

LARGEST: Final = 10 * 2**20
"""Bytes of a manifest file, as in kubelet."""


class SourceState(NamedTuple):
    """What a source has now."""

    pods: list[V1Pod]
    """Valid pods with defaults, one for each namespace and name, in the order of their files."""

    config_maps: dict[tuple[str, str], V1ConfigMap]
    """By namespace and name."""

    errors: dict[str, list[str]]
    """By file: why it, or a part of it, does not count."""


class _Stamp(NamedTuple):
    """Fields of stat(2) for a file; another content has another stamp, unless the file is fresh."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class _Content(NamedTuple):
    """What a file had when it was read."""

    stamp: _Stamp
    read_at_ns: int
    pods: list[V1Pod]
    config_maps: dict[tuple[str, str], V1ConfigMap]
    errors: list[str]

    def is_fresh(self) -> bool:
        return self.read_at_ns - max(self.stamp.mtime_ns, self.stamp.ctime_ns) < _FRESH_NS


@dataclass
class FileSource:
    """The static pods of a file, or of the files in a folder.

    As in kubelet, a folder's entries count whatever their suffix is, except names that begin with a dot, folders and
    devices. A faulty file does not count, and the others do. Of two pods with one name the later file's counts.

    `path` need not exist. `suffix` adds `node_name` to the names of pods. `clock_ns` gives nanoseconds since 1970.
    """

    path: Path
    node_name: str
    _: KW_ONLY
    suffix: bool = True
    clock_ns: Callable[[], int] = time.time_ns
    _contents: dict[Path, _Content] = field(default_factory=dict)
    _failures: dict[Path, str] = field(default_factory=dict)
    _seen: dict[str, str] = field(default_factory=dict)
    _first: bool = True

    def changed(self) -> bool:
        """Tell whether `read` would read a file again; costs one stat(2) for each file."""
        stamps, failures = self._stamps()
        return (
            self._first
            or failures != self._failures
            or stamps != {path: content.stamp for path, content in self._contents.items()}
            or any(content.is_fresh() for content in self._contents.values())
        )

    def read(self) -> SourceState:
        """Return all pods and config maps; only new, changed and fresh files are read."""
        stamps, failures = self._stamps()
        contents = {}
        for path, stamp in stamps.items():
            known = self._contents.get(path)
            try:
                current = known is not None and known.stamp == stamp and not known.is_fresh()
                contents[path] = known if known is not None and current else self._content(path, stamp)
            except OSError as error:
                failures[path] = str(error.strerror)
        self._contents, self._failures, self._first = contents, failures, False
        return self._state()

    def _stamps(self) -> tuple[dict[Path, _Stamp], dict[Path, str]]:
        """Return the stamps of the files in their order, and why other paths do not count."""
        stamps: dict[Path, _Stamp] = {}
        failures: dict[Path, str] = {}
        try:
            folder = self.path.is_dir()
            paths = sorted(self.path.iterdir()) if folder else [self.path]
        except OSError as error:
            return {}, {self.path: str(error.strerror)}
        for path in paths:
            if folder and path.name.startswith("."):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                failures[path] = "path does not exist, ignoring"
            except OSError as error:
                failures[path] = str(error.strerror)
            else:
                if stat.S_ISREG(status.st_mode):
                    stamps[path] = _Stamp(
                        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                    )
                else:
                    folder_or_device = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
                    failures[path] = f"{folder_or_device}, ignoring"
        return stamps, failures

    def _content(self, path: Path, stamp: _Stamp) -> _Content:
        """Read a file and make its pods static ones. Raises OSError."""
        read_at_ns = self.clock_ns()
        manifests = read_manifests(path)
        content = _Content(stamp, read_at_ns, [], manifests.config_maps, manifests.errors)
        for written in manifests.pods:
            if not written.metadata.name:
                content.errors.append("invalid pod: name is needed for the pod")
                continue
            pod = static_pod(with_defaults(written), path, self.node_name, suffix=self.suffix)
            if faults := validate_pod(pod):
                content.errors.append(f"Pod {quoted(written.metadata.name)} is invalid: {aggregate(faults)}")
            else:
                content.pods.append(pod)
        return content

    def _state(self) -> SourceState:
        pods: dict[tuple[str, str], tuple[Path, V1Pod]] = {}
        config_maps: dict[tuple[str, str], tuple[Path, V1ConfigMap]] = {}
        errors = {str(path): [failure] for path, failure in self._failures.items()}
        errors |= {str(path): list(content.errors) for path, content in self._contents.items() if content.errors}
        for path, content in self._contents.items():
            for pod in content.pods:
                key = (pod.metadata.namespace, pod.metadata.name)
                if key in pods:
                    earlier, other = pods.pop(key)
                    twice = f"Error validating pod {other} from file due to duplicate pod name"  # kubelet's words
                    errors.setdefault(str(earlier), []).append(f"{twice} {quoted(other.metadata.name)}, ignoring")
                pods[key] = (path, pod)
            for key, config_map in content.config_maps.items():
                if key in config_maps:
                    twice = f"config map {quoted('/'.join(key))} is also in {path}, ignoring"
                    errors.setdefault(str(config_maps[key][0]), []).append(twice)
                config_maps[key] = (path, config_map)
        return SourceState(
            self._with_times([pod for _, pod in pods.values()]),
            {key: config_map for key, (_, config_map) in config_maps.items()},
            errors,
        )

    def _with_times(self, pods: list[V1Pod]) -> list[V1Pod]:
        """Note on each pod when this source saw it first (kubelet's config.merge)."""
        now = datetime.fromtimestamp(self.clock_ns() / 1e9, UTC).isoformat().replace("+00:00", "Z")
        self._seen = {pod.metadata.uid: self._seen.get(pod.metadata.uid, now) for pod in pods}
        for pod in pods:
            pod.metadata.annotations[CONFIG_SEEN] = self._seen[pod.metadata.uid]
        return pods


def read_manifests(path: Path) -> Manifests:
    """Return the pods and config maps of a file. Raises OSError."""
    content = read_regular(path, LARGEST + 1, follow=True)
    if len(content) > LARGEST:
        return Manifests([], {}, [f"more than {LARGEST} bytes"])
    return parse_manifests(content)


def static_pod(pod: V1Pod, file: Path, node_name: str, *, suffix: bool = True) -> V1Pod:
    """Return a copy of a pod that `with_defaults` has made, as a static pod (kubelet's applyDefaults).

    Its UID has 32 hexadecimal digits, which are a hash of the pod, the node's name and the file's path: an edited file
    has another pod. A UID in the manifest is kept. `suffix` adds the node's name to the pod's.
    """
    pod = pod.copy()
    # 128 bits; kubelet's FNV-1a over Go's own print of a pod cannot be repeated here.
    text = json.dumps([pod.encode(), node_name, str(file)], sort_keys=True)
    pod.metadata.uid = pod.metadata.uid or hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    if suffix:
        pod.metadata.name += f"-{node_name.lower()}"
    pod.metadata.namespace = pod.metadata.namespace or "default"
    pod.metadata.annotations |= {CONFIG_HASH: pod.metadata.uid, CONFIG_SOURCE: "file"}
    pod.spec.node_name = node_name
    toleration = V1Toleration(operator="Exists", effect="NoExecute")
    kept = [known for known in pod.spec.tolerations if _taint(known) != _taint(toleration)]
    pod.spec.tolerations = [*kept, toleration]
    return pod


def _taint(toleration: V1Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


class Sources(threading.Thread):
    """Looks for changes twice a second, and hands all pods to `on_pods`, which is set before, after each.

    Without a folder, every recorded pod is wanted: a single pass leaves the static pods of an ended kubelet alone.
    """

    def __init__(
        self,
        records: PodRecords,
        *,
        manifests: Path | None,
        node_name: str,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="sources", daemon=True)
        self._records = records
        self.on_pods: Callable[[list[V1Pod]], None] = lambda _: None
        self._files = None if manifests is None else FileSource(manifests, node_name)
        self._say = say
        self._static: list[V1Pod] = []
        self._said: set[str] = set()
        self._last: list[V1Pod] | None = None
        self._ended = threading.Event()

    def look(self) -> None:
        """Read what has changed, and hand on the pods if they are others than before. Raises OSError."""
        if self._files is not None and self._files.changed():
            state = self._files.read()
            self._static = state.pods
            for pod in state.pods:
                self._records.set_config_maps(pod, state.config_maps)
            said = {f"{file}: {error}" for file, errors in state.errors.items() for error in errors}
            for line in sorted(said - self._said):
                self._say(line)
            self._said = said
        recorded = [pod for pod in self._records.pods() if not pod.metadata.deletion_timestamp]
        if self._files is not None:
            recorded = [pod for pod in recorded if pod.metadata.annotations.get(CONFIG_SOURCE) == RUN_SOURCE]
        pods = [*self._static, *recorded]
        if pods != self._last:
            self._last = pods
            self.on_pods(pods)

    def run(self) -> None:
        """Look until `close`."""
        while not self._ended.wait(_PERIOD_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - told; without this thread no change would be seen any more
                self._say(f"manifests: {error}")

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self.is_alive():
            self.join()
