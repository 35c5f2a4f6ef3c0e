"""The pods that kubelet has taken on, their statuses and their config maps, in files: they outlive its process.

Each pod's folder has `pod.json`, the pod with its defaults, `status.json`, the status that was told last, and
`config-maps`: copies of those that the pod names, so that any later process has them, and no file outlives the pod.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from api.formats import format_time
from api.object import V1Object
from api.pod import V1ConfigMap, V1Pod
from api.status import V1PodStatus
from harness.files import remove_tree, write_atomically
from harness.kubelet.paths import KubeletPaths
from skel.strict_json import decode_json

_RECORD: Final = "pod.json"
_LEFT_S: Final = 60.0

ConfigMaps: TypeAlias = Callable[[str], Mapping[tuple[str, str], V1ConfigMap]]
"""Returns the config maps of the pod with this UID, by namespace and name."""


class PodRecords:
    """Pods and statuses by UID; safe to share between threads."""

    def __init__(self, paths: KubeletPaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._statuses: dict[str, V1PodStatus] = {}

    def add(self, pod: V1Pod) -> None:
        """Write a pod, new or changed. Raises OSError."""
        _write(self._paths.pod(pod.metadata.uid) / _RECORD, pod)

    def pods(self) -> list[V1Pod]:
        """Return all pods, by namespace and name. Unreadable ones are left out: an older release's."""
        found = []
        for path in self._paths.pods.glob(f"*/{_RECORD}"):
            with suppress(OSError, ValueError):
                found.append(V1Pod.decode(decode_json(path.read_bytes())))
        return sorted(found, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    def set_status(self, uid: str, status: V1PodStatus) -> None:
        """Keep a status; the file is written only if it changes. Raises OSError."""
        with self._lock:
            if self._statuses.get(uid) == status:
                return
            self._statuses[uid] = status
        if self._paths.pod(uid).is_dir():
            _write(self._paths.pod(uid) / "status.json", status)

    def status(self, uid: str) -> V1PodStatus | None:
        """Return the status that was kept last, by this process or an earlier one."""
        with self._lock:
            known = self._statuses.get(uid)
        if known is not None:
            return known
        with suppress(OSError, ValueError):
            return V1PodStatus.decode(decode_json((self._paths.pod(uid) / "status.json").read_bytes()))
        return None

    def set_deleted(self, pod: V1Pod, grace_s: int | None) -> None:
        """Note that a pod is to be ended, in `grace_s` seconds instead of its own grace period. Raises OSError.

        As in the API, a later deletion can only shorten the period.
        """
        if not pod.metadata.deletion_timestamp:
            pod.metadata.deletion_timestamp = format_time(time.time())
        before = pod.metadata.deletion_grace_period_seconds
        if grace_s is not None and (before is None or grace_s < before):
            pod.metadata.deletion_grace_period_seconds = grace_s
        self.add(pod)

    def deletion_grace_s(self, uid: str) -> int | None:
        """Return the grace period that a pod's deletion came with, in seconds; None for the pod's own."""
        with suppress(OSError, ValueError):
            pod = V1Pod.decode(decode_json((self._paths.pod(uid) / _RECORD).read_bytes()))
            return pod.metadata.deletion_grace_period_seconds
        return None

    def set_config_maps(self, pod: V1Pod, known: Mapping[tuple[str, str], V1ConfigMap]) -> None:
        """Keep those of the `known` config maps that a pod names, and no others; before `add`. Raises OSError."""
        folder = self._paths.config_maps(pod.metadata.uid)
        wanted = {f"{'_'.join(key)}.json": known[key] for key in named_config_maps(pod) if key in known}
        before = self.config_maps(pod.metadata.uid)
        for name, config_map in wanted.items():
            if before.get((config_map.metadata.namespace, config_map.metadata.name)) != config_map:
                _write(folder / name, config_map)
        for path in folder.glob("*.json"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def config_maps(self, uid: str) -> dict[tuple[str, str], V1ConfigMap]:
        """Return the config maps that were kept for a pod, by namespace and name."""
        found = {}
        for path in self._paths.config_maps(uid).glob("*.json"):
            with suppress(OSError, ValueError):
                each = V1ConfigMap.decode(decode_json(path.read_bytes()))
                found[each.metadata.namespace, each.metadata.name] = each
        return found

    def remove(self, uid: str) -> None:
        """Forget a pod. Raises OSError.

        The record goes last: a kubelet that was killed meanwhile ends the pod again, and completes this.
        """
        with self._lock:
            self._statuses.pop(uid, None)
        for logs in self._paths.logs.glob(f"*_{uid}"):
            shutil.rmtree(logs, ignore_errors=True)
        folder = self._paths.pod(uid)
        for path in folder.glob("*"):
            if path.is_dir():
                remove_tree(path)
            elif path.name != _RECORD:
                path.unlink(missing_ok=True)
        (folder / _RECORD).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            folder.rmdir()

    def leftovers(self) -> list[str]:
        """Return the UIDs of folders without a record: of a removal that was killed, or of an event that came late.

        A folder that changed within the last minute is none: `run` may be about to write its record.
        """
        found = []
        for folder in self._paths.pods.glob("*/"):
            with suppress(FileNotFoundError):
                is_old = time.time() - folder.stat().st_mtime > _LEFT_S
                if is_old and not (folder / _RECORD).exists():
                    found.append(folder.name)
        return found


def _write(path: Path, record: V1Object) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    # For root alone: environment variables may hold secrets.
    write_atomically(path, json.dumps(record.encode(), indent=1).encode() + b"\n", mode=0o600)


def named_config_maps(pod: V1Pod) -> set[tuple[str, str]]:
    """Return the config maps by namespace and name; they may be missing."""
    names = [each.config_map.name for each in pod.spec.volumes if each.config_map is not None]
    for container in pod.spec.all_containers():
        names += [each.config_map_ref.name for each in container.env_from if each.config_map_ref is not None]
        sources = [each.value_from.config_map_key_ref for each in container.env if each.value_from is not None]
        names += [each.name for each in sources if each is not None]
    return {(pod.metadata.namespace, name) for name in names}
