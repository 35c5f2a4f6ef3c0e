"""Limits in the kernel's units, and the control groups of pods below `kubepods`.

kubelet: kuberuntime_container_linux.go, cm/helpers_linux.go, cm/pod_container_manager_linux.go (driver cgroupfs).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from api.container import V1Container
from api.pod import V1Pod
from api.quantity import quantity_milli, quantity_value
from harness.containerd import control_groups
from harness.cri.messages import Resources
from harness.kubelet.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, pod_limits, pod_requests, qos_class

_PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1_000
_LEAST_SHARES: Final = 2
_MOST_SHARES: Final = 262_144
_GUARANTEED_OOM: Final = -997  # these three: kubelet's qos/policy.go
_BEST_EFFORT_OOM: Final = 1000
_BURSTABLE_OOM: Final = (3, 999)

_ROOT: Final = "kubepods"
_FOLDERS: Final = {BEST_EFFORT: f"{_ROOT}/besteffort", BURSTABLE: f"{_ROOT}/burstable"}


def container_resources(pod: V1Pod, container: V1Container, node_memory: int) -> Resources:
    """Return the limits of a container; `node_memory` is in bytes."""
    limits, requests = container.resources.limits, container.resources.requests
    cpu = requests.get("cpu", limits.get("cpu"))
    return Resources(
        cpu_period=_PERIOD_US,
        cpu_quota=cpu_quota(quantity_milli(limits["cpu"])) if "cpu" in limits else 0,
        cpu_shares=cpu_shares(quantity_milli(cpu) if cpu else 0),
        memory_limit_in_bytes=quantity_value(limits["memory"]) if "memory" in limits else 0,
        oom_score_adj=_oom_score(pod, container, node_memory),
    )


def cpu_shares(milli: int) -> int:
    """Return the shares of a request in thousandths of a CPU."""
    return max(_LEAST_SHARES, min(_MOST_SHARES, milli * 1024 // 1000))


def cpu_quota(milli: int) -> int:
    """Return the microseconds in each period of 100 ms; 0 is no limit."""
    return max(_LEAST_QUOTA_US, milli * _PERIOD_US // 1000) if milli else 0


def memory_of_node(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the node's memory in bytes. Raises OSError."""
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _oom_score(pod: V1Pod, container: V1Container, node_memory: int) -> int:
    kind = qos_class(pod)
    if kind == GUARANTEED:
        return _GUARANTEED_OOM
    if kind == BEST_EFFORT:
        return _BEST_EFFORT_OOM
    request = quantity_value(container.resources.requests.get("memory", "0"))
    least, most = _BURSTABLE_OOM
    return max(least, min(most, 1000 - 1000 * request // max(node_memory, 1)))


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
            for path in control_groups.existing(f"{folder}/pod{uid}"):
                control_groups.remove([*map(str, sorted(Path(path).rglob("*/"), reverse=True)), path])  # inside out
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
