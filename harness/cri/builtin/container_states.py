"""The life of a container of the built-in runtime, as in containerd's `store/container/status.go`.

stateDiagram-v2
    [*] --> CREATED: create
    CREATED --> RUNNING: start
    CREATED --> EXITED: start failed
    CREATED --> EXITED: shim lost
    CREATED --> [*]: remove
    RUNNING --> EXITED: exit
    RUNNING --> EXITED: shim lost
    EXITED --> [*]: remove
    [*] --> CREATED: load
    [*] --> RUNNING: load
    [*] --> EXITED: load

A signal of StopContainer changes no state: the process exits. RemoveContainer stops a running container first.
No container is UNKNOWN: `Containers.recover` removes a folder whose record cannot be read.

The state is stored nowhere. It follows from the files of the container's folder, which the shim writes, and from the
shim's lock (`state_of`). A crash cannot make them disagree.
"""

from enum import StrEnum
from typing import Final

from harness.cri.builtin.transitions import Transition, TransitionTable
from harness.cri.messages import ContainerState

__all__ = ["TABLE", "ContainerEvent", "state_of"]


class ContainerEvent(StrEnum):
    """Events of a container's life. LOAD is the start of a program that finds the container in its folder."""

    CREATE = "create"
    START = "start"
    START_FAILED = "start failed"
    EXIT = "exit"
    SHIM_LOST = "shim lost"
    REMOVE = "remove"
    LOAD = "load"


_CREATED: Final = ContainerState.CREATED
_RUNNING: Final = ContainerState.RUNNING
_EXITED: Final = ContainerState.EXITED

TABLE: Final = TransitionTable[ContainerState, ContainerEvent](
    Transition(None, ContainerEvent.CREATE, _CREATED),
    Transition(_CREATED, ContainerEvent.START, _RUNNING),
    Transition(_CREATED, ContainerEvent.START_FAILED, _EXITED),
    Transition(_CREATED, ContainerEvent.SHIM_LOST, _EXITED),
    Transition(_CREATED, ContainerEvent.REMOVE, None),
    Transition(_RUNNING, ContainerEvent.EXIT, _EXITED),
    Transition(_RUNNING, ContainerEvent.SHIM_LOST, _EXITED),
    Transition(_EXITED, ContainerEvent.REMOVE, None),
    Transition(None, ContainerEvent.LOAD, _CREATED),
    Transition(None, ContainerEvent.LOAD, _RUNNING),
    Transition(None, ContainerEvent.LOAD, _EXITED),
)


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
