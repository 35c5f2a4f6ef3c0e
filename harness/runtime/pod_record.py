"""The record of a pod: its names, its network namespace, its networks and its state."""

import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from harness.process_stat import process_stat
from harness.runtime.sandbox import sandbox_exists
from harness.runtime.sandbox_life import SANDBOX_LIFE, SandboxEvent, SandboxState
from skel.decoders import dict_of, integer, list_of, optional, raw, record, string
from skel.errors import CniError
from skel.record import Record, expected, field
from skel.result import Result

IN_USE: Final = (SandboxState.READY, SandboxState.CHANGING)
"""The states of a pod that is complete."""


class PodNetwork(Record):
    """One network of a pod: the arguments of its ADD, and the result.

    `config` is the network list as text. `result` is in the list's own version, and None until the ADD has succeeded.
    """

    name: str = field(string)
    ifname: str = field(string)
    config: str = field(string, default="")
    source: str = field(string, default="")
    cni_args: dict[str, str] = field(dict_of(string), default=dict)
    capability_args: dict[str, object] = field(dict_of(raw), default=dict)
    result: dict[str, object] | None = field(dict_of(raw), default=None)

    def decoded(self) -> Result:
        """Return the decoded result; an empty one if it is missing or unreadable."""
        if self.result is not None:
            with suppress(CniError):
                return Result.decode_any(self.result, "result")
        return Result()


class PauseProcess(Record):
    """A process; `started` is in clock ticks since boot, which tells it from a later one of the same PID."""

    pid: int = field(integer)
    started: int = field(integer)

    def runs(self) -> bool:
        """Tell whether the process is there, and is not another one with its PID."""
        stat = process_stat(self.pid)
        return stat is not None and not stat.has_ended and stat.started == self.started


def _state(value: object, path: str) -> SandboxState:
    """Decode a state, also of a bare pod in format 1."""
    former = {"incomplete": SandboxState.UNKNOWN, "ready": SandboxState.READY}
    try:
        return former.get(str(value)) or SandboxState(str(value))
    except ValueError:
        raise expected("a state of a sandbox", value, path) from None


class Pod(Record):
    """A pod: its names, its network namespace, its networks. `created` is UTC, as RFC 3339 writes it.

    `sandbox` has what the Container Runtime Interface adds; a bare pod has none. `netns` is empty on the node's
    network. `pause` is the process that holds the namespaces of a sandbox's containers.
    """

    format: int = field(integer, default=1)
    name: str = field(string)
    namespace: str = field(string)
    uid: str = field(string)
    container_id: str = field(string, "containerID")
    netns: str = field(string)
    state: SandboxState = field(_state, default=SANDBOX_LIFE.start)
    created: str = field(string)
    bin_dirs: list[str] = field(list_of(string), default=list)
    networks: list[PodNetwork] = field(list_of(record(PodNetwork)), default=list)
    pause: PauseProcess | None = field(optional(record(PauseProcess)), default=None)
    sandbox: object = field(raw, default=None)

    @property
    def title(self) -> str:
        """The pod's name in the form that kubectl uses across namespaces."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_bare(self) -> bool:
        """Whether `add` made it, and not a kubelet."""
        return self.sandbox is None

    def apply(self, event: SandboxEvent) -> None:
        """Change the state. Raises TransitionError."""
        self.state = SANDBOX_LIFE.after(self.state, event)

    def is_ready(self) -> bool:
        """Tell whether the pod is complete and its namespaces exist, as they do not after a reboot."""
        if self.state not in IN_USE:
            return False
        return self.pause.runs() if self.pause is not None else sandbox_exists(self.netns)


def new_pod(namespace: str, name: str, *, netns: str, bin_dirs: list[str], networks: list[PodNetwork]) -> Pod:
    """Return a bare pod that does not exist yet, with a new container ID and UID."""
    return Pod(
        name=name,
        namespace=namespace,
        uid=str(uuid.uuid4()),
        container_id=new_container_id(),
        netns=netns,
        created=rfc3339(datetime.now(UTC)),
        bin_dirs=bin_dirs,
        networks=networks,
    )


def rfc3339(moment: datetime) -> str:
    """Return a time of UTC as records have it."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def new_container_id() -> str:
    """Return 64 hex digits, as containerd's IDs."""
    import secrets  # it loads OpenSSL

    return secrets.token_hex(32)
