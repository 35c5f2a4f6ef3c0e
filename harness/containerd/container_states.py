"""The life of a container of the built-in runtime, as in containerd's `store/container/status.go`.

    --> CREATED -- START --------------------> RUNNING
          |                                       |
          +-- START_FAILED, SHIM_LOST --+   EXIT, SHIM_LOST
                                        v         |
                                      EXITED <----+

A signal of StopContainer changes no state: the process exits. RemoveContainer stops a running container
first, and takes a container in any other state.
No container is UNKNOWN: `Containers.recover` removes a folder whose record cannot be read.

The state is stored nowhere. It follows from the files of the container's folder, which the shim writes, and from the
shim's lock (`state_of`). A crash cannot make them disagree. Below are also the messages that tell state and status.
"""

from enum import StrEnum
from typing import Final

from harness.containerd.container_store import ContainerRecord, Exit, ProcessRecord
from harness.cri.messages import Container, ContainerState, ContainerStatus
from harness.transitions import Transitions


class ContainerEvent(StrEnum):
    """Events of a container's life. SHIM_LOST is the end of a shim that has written no exit code."""

    START = "START"
    START_FAILED = "START_FAILED"
    EXIT = "EXIT"
    SHIM_LOST = "SHIM_LOST"


_CREATED: Final = ContainerState.CREATED
_RUNNING: Final = ContainerState.RUNNING
_EXITED: Final = ContainerState.EXITED

CONTAINER_LIFE: Final = Transitions(
    _CREATED,
    {
        (_CREATED, ContainerEvent.START): _RUNNING,
        (_CREATED, ContainerEvent.START_FAILED): _EXITED,
        (_CREATED, ContainerEvent.SHIM_LOST): _EXITED,
        (_RUNNING, ContainerEvent.EXIT): _EXITED,
        (_RUNNING, ContainerEvent.SHIM_LOST): _EXITED,
    },
)
"""The drawing above."""


def state_of(*, shim_started: bool, shim_alive: bool, process: bool, exited: bool) -> ContainerState:
    """Return the state that the files of a container's folder stand for.

    `shim_started`: the shim was started, whether or not it ever ran. `shim_alive`: it holds its lock. `process`: it
    wrote the process's PID. `exited`: it wrote the exit file.
    """
    if exited:
        return _EXITED
    if not shim_started:
        return _CREATED
    if not shim_alive:
        return _EXITED
    return _RUNNING if process else _CREATED


def container_message(record: ContainerRecord, state: ContainerState) -> Container:
    """Return a container as in a list."""
    config = record.config
    return Container(
        id=record.id,
        pod_sandbox_id=record.pod_sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=record.image_id,
        state=state,
        created_at=record.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def status_message(
    record: ContainerRecord, state: ContainerState, process: ProcessRecord | None, end: Exit | None
) -> ContainerStatus:
    """Return a container in full. An exit without a stored reason is Completed or Error, as in containerd."""
    status = ContainerStatus(**vars(container_message(record, state)))
    status.mounts = record.config.mounts
    status.log_path = record.log_path
    if process is not None:
        status.started_at = process.started_at
    if state is ContainerState.EXITED and end is not None:
        status.finished_at = end.finished_at
        status.exit_code = end.code
        status.reason = end.reason or ("Error" if end.code else "Completed")
        status.message = end.message
    return status
