"""The control groups of pods, below `kubepods` (kubelet's cm/pod_container_manager_linux.go, driver cgroupfs)."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.cri.builtin import control_groups
from harness.kubelet.pod_resources import BEST_EFFORT, BURSTABLE, pod_limits, pod_requests, qos_class
from harness.kubelet.resources import cpu_quota, cpu_shares
from harness.kubelet.v1 import V1Pod

_ROOT: Final = "kubepods"
_FOLDERS: Final = {BEST_EFFORT: f"{_ROOT}/besteffort", BURSTABLE: f"{_ROOT}/burstable"}


class PodCgroups:
    """Makes and removes the groups of pods; `say` is told once if this machine does not allow groups."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said = False

    def ensure(self, pod: V1Pod) -> str:
        """Return the pod's group as a path below the root, made if it is missing; empty if none can be made.

        Raises OSError.
        """
        name = f"{_FOLDERS.get(qos_class(pod), _ROOT)}/pod{pod.metadata.uid}"
        folders = control_groups.folders(name)
        if not folders:
            if not self._said:
                self._said = True
                self._say("Control groups cannot be made on this machine: pods run without limits")
            return ""
        control_groups.make(folders, _limits(pod))
        return f"/{name}"

    def remove(self, uid: str) -> None:
        """Kill the last processes of a pod's group, and remove it and empty folders above it; a missing one is fine."""
        for folder in (*_FOLDERS.values(), _ROOT):
            paths = control_groups.existing(f"{folder}/pod{uid}")
            for path in paths:
                control_groups.remove(_inside_out(path))
        for folder in (*_FOLDERS.values(), _ROOT):
            for path in control_groups.existing(folder):
                with suppress(OSError):  # other pods have theirs there
                    os.rmdir(path)  # noqa: PTH106 - the folders are text


def _limits(pod: V1Pod) -> dict[str, str]:
    """Return the limits of all containers together; a limit counts only if every container has one."""
    requests, limits = pod_requests(pod), pod_limits(pod)
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    limited = {name for name in ("cpu", "memory") if all(name in each.resources.limits for each in containers)}
    return control_groups.limits(
        0,
        cpu_quota(limits.get("cpu", 0)) if "cpu" in limited else 0,
        cpu_shares(requests.get("cpu", 0)),
        limits.get("memory", 0) if "memory" in limited else 0,
    )


def _inside_out(path: str) -> list[str]:
    """Return the folders below a path, the innermost first, and the path."""
    return [str(each) for each in sorted(Path(path).rglob("*/"), reverse=True)] + [path]
