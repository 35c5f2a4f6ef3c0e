"""Whether a pod has got as far as it can for now."""

from typing import Final

from harness.kubelet.api_status import is_terminal_phase
from harness.kubelet.events import Event
from harness.kubelet.v1_status import V1PodStatus

__all__ = ["failure_of", "is_ready"]

_FAILURES: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "RunContainerError",
    }
)
"""Reasons of waiting containers that time alone seldom changes."""

_EVENTS: Final = frozenset(
    {"FailedCreatePodContainer", "FailedCreatePodSandBox", "FailedMount", "FailedSync", "NetworkNotReady"}
)


def is_ready(status: V1PodStatus) -> bool:
    """Tell whether a pod has ended, or has the condition Ready."""
    ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions)
    return is_terminal_phase(status.phase) or ready


def failure_of(status: V1PodStatus, events: list[Event]) -> str:
    """Return why a pod does not get ready, in one line; empty while there is no failure."""
    if status.phase == "Failed":
        return f"{status.reason}: {status.message}" if status.reason else "Failed"
    everything = [*status.init_container_statuses, *status.container_statuses]
    for each in everything:
        waiting = each.state.waiting
        if waiting is not None and waiting.reason in _FAILURES:
            return f"container {each.name}: {waiting.reason}: {waiting.message}"
    started = any(each.state.running or each.state.terminated for each in everything)
    if not started and events and events[-1].reason in _EVENTS:
        return f"{events[-1].reason}: {events[-1].message}"
    return ""
