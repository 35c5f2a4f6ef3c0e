"""The record of each sandbox, written before anything of the sandbox exists, and the life cycle of a sandbox.

A sandbox is a folder, `<sandboxes>/<id>/`, with `sandbox.json`, the record, and the files that its containers share.
The life cycle is that of containerd's `store/sandbox/status.go`:

              +-- MADE ----> READY ----- ENDED ---+
              |                                   v
    MAKING ---+-- LEFT ----> UNKNOWN --- ENDED -> NOTREADY -- REMOVED --> GONE
              |                                                            ^
              +-- TAKEN_BACK ----------------------------------------------+

A sandbox of a process that was killed while it made the sandbox is LEFT. UNKNOWN is not ready for kubelet: it stops the
sandbox, and removes it.
"""

import json
import shutil
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from harness.cri.builtin.sandbox_process import PauseProcess
from harness.cri.messages import PodSandboxConfig, member_of
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.files import write_atomically
from harness.runtime.pods import PodNetwork
from harness.transitions import Transitions
from skel.decoders import integer, list_of, optional, record, string
from skel.errors import CniError
from skel.record import Record, field
from skel.strict_json import decode_json


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


class SandboxRecord(Record):
    """A sandbox. `created_at` is in nanoseconds since 1970; `netns` is empty on the node's network."""

    id: str = field(string)
    state: SandboxState = field(member_of(SandboxState, "a state of a sandbox"), default=SANDBOX_LIFE.start)
    created_at: int = field(integer)
    config: PodSandboxConfig = field(record(PodSandboxConfig))
    netns: str = field(string, default="")
    hostname: str = field(string, default="")
    pause: PauseProcess | None = field(optional(record(PauseProcess)), default=None)
    networks: list[PodNetwork] = field(list_of(record(PodNetwork)), default=list)
    ips: list[str] = field(list_of(string), default=list)


def sandbox_name(sandbox: SandboxRecord) -> str:
    """Return the name that only one sandbox may have: containerd's POD_NAMESPACE_UID_ATTEMPT."""
    metadata = sandbox.config.metadata
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


class SandboxStore:
    """The sandboxes of one runtime. Safe to share between threads; two of one sandbox's operations must not overlap."""

    def __init__(self, folder: Path) -> None:
        """Read all records; a sandbox that was being made is now of unknown state."""
        self.folder = folder
        self._lock = threading.Lock()
        self._changing = threading.Lock()
        self._sandboxes: dict[str, SandboxRecord] = {}
        for path in sorted(folder.glob("*/sandbox.json")):
            with suppress(OSError, ValueError, CniError):  # written whole: another program's file
                sandbox = SandboxRecord.decode(decode_json(path.read_bytes()))
                self._sandboxes[sandbox.id] = sandbox

    def path(self, sandbox_id: str) -> Path:
        """Return the folder of a sandbox."""
        return self.folder / sandbox_id

    def add(self, sandbox: SandboxRecord) -> None:
        """Write the record of a new sandbox. Raises RuntimeServiceError if its name is taken, OSError."""
        name = sandbox_name(sandbox)
        with self._lock:
            for other in self._sandboxes.values():
                if sandbox_name(other) == name:
                    raise RuntimeServiceError(f'failed to reserve sandbox name "{name}": it is that of "{other.id}"')
            self._sandboxes[sandbox.id] = sandbox
        self.write(sandbox)

    def write(self, sandbox: SandboxRecord) -> None:
        """Write a changed record. Raises OSError."""
        text = json.dumps(sandbox.encode(), indent=1, allow_nan=False)
        path = self.path(sandbox.id) / "sandbox.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode() + b"\n", mode=0o600)

    def end(self, sandbox: SandboxRecord, *, on_record: bool = True) -> None:
        """Apply ENDED unless another thread has done so; without `on_record`, only this process learns of it."""
        with self._changing:
            if sandbox.state not in {SandboxState.READY, SandboxState.UNKNOWN}:
                return
            if on_record:
                self.change(sandbox, SandboxEvent.ENDED)
            else:
                sandbox.state = SANDBOX_LIFE.after(sandbox.state, SandboxEvent.ENDED)

    def change(self, sandbox: SandboxRecord, event: SandboxEvent) -> None:
        """Apply an event; a sandbox that is gone loses its folder. Raises TransitionError, OSError."""
        sandbox.state = SANDBOX_LIFE.after(sandbox.state, event)
        if sandbox.state is not SandboxState.GONE:
            self.write(sandbox)
            return
        folder = self.path(sandbox.id)
        (folder / "sandbox.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._sandboxes.pop(sandbox.id, None)

    def get(self, sandbox_id: str) -> SandboxRecord:
        """Return a sandbox. Raises NotFoundError."""
        with self._lock:
            sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise NotFoundError(f'sandbox "{sandbox_id}": not found')
        return sandbox

    def all(self) -> list[SandboxRecord]:
        """Return all sandboxes, the oldest first."""
        with self._lock:
            return sorted(self._sandboxes.values(), key=lambda each: each.created_at)

    def discard_leftovers(self) -> None:
        """Remove folders without a record, which a killed process left. No other process may be making sandboxes."""
        for folder in self.folder.glob("*/"):
            if not (folder / "sandbox.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
