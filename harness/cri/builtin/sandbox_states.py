"""The life cycle of a sandbox, as containerd's `store/sandbox/status.go` has it.

              +-- MADE ----> READY ----- ENDED ---+
              |                                   v
    MAKING ---+-- LEFT ----> UNKNOWN --- ENDED -> NOTREADY -- REMOVED --> GONE
              |                                                            ^
              +-- TAKEN_BACK ----------------------------------------------+

A sandbox of a process that was killed while it made the sandbox is LEFT. UNKNOWN is not ready for kubelet: it stops the
sandbox, and removes it.
"""

from enum import StrEnum

from harness.transitions import Transitions


class SandboxState(StrEnum):
    """A sandbox's state."""

    MAKING = "MAKING"
    READY = "READY"
    UNKNOWN = "UNKNOWN"
    NOTREADY = "NOTREADY"
    GONE = "GONE"


class SandboxEvent(StrEnum):
    """A change of a sandbox."""

    MADE = "MADE"
    TAKEN_BACK = "TAKEN_BACK"
    LEFT = "LEFT"
    ENDED = "ENDED"
    REMOVED = "REMOVED"


SANDBOX_LIFE = Transitions(
    SandboxState.MAKING,
    {
        (SandboxState.MAKING, SandboxEvent.MADE): SandboxState.READY,
        (SandboxState.MAKING, SandboxEvent.TAKEN_BACK): SandboxState.GONE,
        (SandboxState.MAKING, SandboxEvent.LEFT): SandboxState.UNKNOWN,
        (SandboxState.READY, SandboxEvent.ENDED): SandboxState.NOTREADY,
        (SandboxState.UNKNOWN, SandboxEvent.ENDED): SandboxState.NOTREADY,
        (SandboxState.NOTREADY, SandboxEvent.REMOVED): SandboxState.GONE,
    },
)
"""The state that follows each state, by event: the drawing above."""
