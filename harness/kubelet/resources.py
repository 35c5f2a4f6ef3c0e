"""A container's limits in the kernel's units (kubelet's kuberuntime_container_linux.go, cm/helpers_linux.go)."""

from pathlib import Path
from typing import Final

from harness.cri.messages import Resources
from harness.kubelet.pod_resources import BEST_EFFORT, GUARANTEED, qos_class
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container
from harness.quantity import quantity_milli, quantity_value

_PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1_000
_LEAST_SHARES: Final = 2
_MOST_SHARES: Final = 262_144
_GUARANTEED_OOM: Final = -997
_BEST_EFFORT_OOM: Final = 1000
_BURSTABLE_OOM: Final = (3, 999)


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
