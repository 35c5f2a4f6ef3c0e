"""Whether a pod is ready or has ended, why it fails, and what it waits for."""

from datetime import datetime
from typing import Final, NamedTuple

from api.status import V1ContainerStatus, V1PodStatus, V1StateTerminated
from harness.kubelet.events import WARNING, Event
from harness.kubelet.status.api_status import is_terminal_phase

_INIT: Final = "init container"
_CONTAINER: Final = "container"

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


class Failure(NamedTuple):
    """Why a pod is not as wanted, in one line.

    `container` is the name of a container whose log may tell more, and `previous` says that it waits for its next
    attempt.
    """

    text: str
    container: str = ""
    previous: bool = False


def is_ready(status: V1PodStatus) -> bool:
    """Tell whether a pod has ended, or has the condition Ready."""
    ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions)
    return is_terminal_phase(status.phase) or ready


def is_running_for(status: V1PodStatus, seconds: float, now: datetime) -> bool:
    """Tell whether each container that runs was started at least so many seconds ago."""
    started = [each.state.running.started_at for each in _all(status) if each.state.running is not None]
    # A time has whole seconds: the container may have been started up to a second later.
    return all(time and (now - datetime.fromisoformat(time)).total_seconds() >= seconds + 1 for time in started)


def running_containers(status: V1PodStatus) -> frozenset[str]:
    """Return the IDs of the containers that run."""
    return frozenset(each.container_id for each in _all(status) if each.state.running is not None)


def failure_of(status: V1PodStatus, events: list[Event]) -> Failure | None:
    """Return why a pod does not get ready; None while there is no failure."""
    if status.phase == "Failed":
        return _failed(status)
    for noun, each in _named(status):
        waiting = each.state.waiting
        if waiting is not None and waiting.reason in _FAILURES:
            text = f"{noun} {each.name}: {waiting.reason}: {waiting.message}"
            if (end := each.last_state.terminated) is None:
                return Failure(text)
            return Failure(f"{text}; it {_end(end)}", each.name, previous=True)
    started = any(each.state.running or each.state.terminated for each in _all(status))
    if not started and events and events[-1].reason in _EVENTS:
        return Failure(f"{events[-1].reason}: {events[-1].message}")
    return None


def obstacle_of(status: V1PodStatus, events: list[Event]) -> Failure | None:
    """Return why a pod without a failure is not ready yet; None if nothing tells it."""
    for noun, each in _named(status):
        if each.state.terminated is not None and (noun == _CONTAINER or each.state.terminated.exit_code):
            return Failure(f"{noun} {each.name} {_end(each.state.terminated)}", each.name)
        if each.ready or (noun == _INIT and each.state.terminated):
            continue
        probed = [event for event in events if event.reason == "Unhealthy" and f"{{{each.name}}}" in event.field_path]
        if probed and each.state.running is not None:
            return Failure(f"{noun} {each.name}: {probed[-1].message.strip()}")
        if noun == _INIT and each.state.running is not None:
            return Failure(f"{noun} {each.name} has not ended", each.name)
    if warnings := [event for event in events if event.type == WARNING]:
        return Failure(f"{warnings[-1].reason}: {warnings[-1].message}")
    waiting = next(((each.name, each.state.waiting) for each in _all(status) if each.state.waiting is not None), None)
    return None if waiting is None else Failure(f"container {waiting[0]}: {waiting[1].reason}")


def _failed(status: V1PodStatus) -> Failure:
    """Return the failure of a pod that has ended: its own reason, or its first container that failed."""
    if status.reason:
        return Failure(f"{status.reason}: {status.message}")
    for noun, each in _named(status):
        if each.state.terminated is not None and each.state.terminated.exit_code:
            return Failure(f"{noun} {each.name} {_end(each.state.terminated)}", each.name)
    return Failure("Failed")


def _end(end: V1StateTerminated) -> str:
    """Return `ended with exit code 3 (Error)`, followed by the container's message if it has one."""
    text = f"ended with exit code {end.exit_code}" + (f" ({end.reason})" if end.reason else "")
    return f"{text}: {end.message.strip()}" if end.message.strip() else text


def _named(status: V1PodStatus) -> list[tuple[str, V1ContainerStatus]]:
    inits = [(_INIT, each) for each in status.init_container_statuses]
    return inits + [(_CONTAINER, each) for each in status.container_statuses]


def _all(status: V1PodStatus) -> list[V1ContainerStatus]:
    return [each for _, each in _named(status)]
