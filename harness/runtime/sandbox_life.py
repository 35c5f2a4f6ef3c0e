"""The life cycle of a pod's sandbox, after containerd's `store/sandbox/status.go`, with networks that come and go.

                                 CHANGING
                        CHANGE     ^ |   CHANGED
                                   | v
              +-- MADE ---------> READY -------- ENDED ---+
              |                                           v
    MAKING ---+-- LEFT --> UNKNOWN -- ENDED ----------> NOTREADY -- REMOVED --> GONE
              |                                                                  ^
              +-- TAKEN_BACK ----------------------------------------------------+

CHANGE is the beginning of `connect` and `disconnect`. LEFT is the end of a process that was making the sandbox, or a
plugin's error while it was removed: what is left of it can be removed again.
"""

from enum import StrEnum
from typing import Final

from harness.transitions import Transitions


class SandboxState(StrEnum):
    """A sandbox's state."""

    MAKING = "MAKING"
    READY = "READY"
    CHANGING = "CHANGING"
    UNKNOWN = "UNKNOWN"
    NOTREADY = "NOTREADY"
    GONE = "GONE"


class SandboxEvent(StrEnum):
    """A change of a sandbox."""

    MADE = "MADE"
    TAKEN_BACK = "TAKEN_BACK"
    LEFT = "LEFT"
    CHANGE = "CHANGE"
    CHANGED = "CHANGED"
    ENDED = "ENDED"
    REMOVED = "REMOVED"


_S, _E = SandboxState, SandboxEvent

SANDBOX_LIFE: Final = Transitions(
    _S.MAKING,
    {
        (_S.MAKING, _E.MADE): _S.READY,
        (_S.MAKING, _E.TAKEN_BACK): _S.GONE,
        (_S.MAKING, _E.LEFT): _S.UNKNOWN,
        (_S.READY, _E.CHANGE): _S.CHANGING,
        (_S.CHANGING, _E.CHANGED): _S.READY,
        (_S.READY, _E.LEFT): _S.UNKNOWN,
        (_S.CHANGING, _E.LEFT): _S.UNKNOWN,
        (_S.READY, _E.ENDED): _S.NOTREADY,
        (_S.CHANGING, _E.ENDED): _S.NOTREADY,
        (_S.UNKNOWN, _E.ENDED): _S.NOTREADY,
        (_S.NOTREADY, _E.REMOVED): _S.GONE,
    },
)
"""The state that follows each state, by event: the drawing above."""
