"""The status of a pod (Kubernetes API v1, PodStatus): what kubelet tells of it.

Times are RFC 3339 in UTC, empty for "not yet"; conditions' `status` is True, False or Unknown, as text.
"""

from typing import Final

from api.container import V1Resources
from skel.decoders import boolean, dict_of, integer, list_of, optional, record, string
from skel.record import Record, field

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


class V1StateWaiting(Record):
    """A container that does not run yet."""

    reason: str = field(string, default="")
    message: str = field(string, default="")


class V1StateRunning(Record):
    """A container that runs."""

    started_at: str = field(string, default="")


class V1StateTerminated(Record):
    """A container that has ended."""

    exit_code: int = field(integer, default=0)
    signal: int = field(integer, default=0)
    reason: str = field(string, default="")
    message: str = field(string, default="")
    started_at: str = field(string, default="")
    finished_at: str = field(string, default="")
    container_id: str = field(string, "containerID", default="")

    def encode(self) -> dict[str, object]:
        """Return the JSON object, with the exit code even if it is 0."""
        return {"exitCode": self.exit_code, **super().encode()}


class V1ContainerState(Record):
    """Exactly one is set."""

    waiting: V1StateWaiting | None = field(optional(record(V1StateWaiting)), default=None)
    running: V1StateRunning | None = field(optional(record(V1StateRunning)), default=None)
    terminated: V1StateTerminated | None = field(optional(record(V1StateTerminated)), default=None)


class V1LinuxUser(Record):
    """The user of a container's first process, by numbers."""

    uid: int = field(integer, default=0)
    gid: int = field(integer, default=0)
    supplemental_groups: list[int] = field(list_of(integer), default=list)

    def encode(self) -> dict[str, object]:
        """Return the JSON object, with user and group even if they are 0."""
        return {"uid": self.uid, "gid": self.gid, **super().encode()}


class V1ContainerUser(Record):
    """The user of a container; there is no other system than Linux here."""

    linux: V1LinuxUser = field(record(V1LinuxUser))


class V1ContainerStatus(Record):
    """A container; `container_id` begins with the runtime's name and `://`.

    `resources` and `allocated_resources`, the requests, are the manifest's, once there is a container.
    """

    name: str = field(string)
    state: V1ContainerState = field(record(V1ContainerState), default=V1ContainerState)
    last_state: V1ContainerState = field(record(V1ContainerState), default=V1ContainerState)
    ready: bool = field(boolean, default=False)
    started: bool | None = field(optional(boolean), default=None)
    restart_count: int = field(integer, default=0)
    image: str = field(string, default="")
    image_id: str = field(string, "imageID", default="")
    container_id: str = field(string, "containerID", default="")
    allocated_resources: dict[str, str] = field(dict_of(string), default=dict)
    resources: V1Resources | None = field(optional(record(V1Resources)), default=None)
    user: V1ContainerUser | None = field(optional(record(V1ContainerUser)), default=None)

    def encode(self) -> dict[str, object]:
        """Return the JSON object, with the keys that the API has even without a value."""
        always = {"ready": False, "restartCount": 0, "image": "", "imageID": "", "lastState": {}, "state": {}}
        return {**always, **super().encode()}


class V1PodCondition(Record):
    """One of PodScheduled, PodReadyToStartContainers, Initialized, ContainersReady, Ready."""

    type: str = field(string)
    status: str = field(string)
    reason: str = field(string, default="")
    message: str = field(string, default="")
    last_transition_time: str = field(string, default="")


class V1PodStatus(Record):
    """The state of a pod as its kubelet knows it."""

    phase: str = field(string, default="")
    reason: str = field(string, default="")
    message: str = field(string, default="")
    host_ip: str = field(string, "hostIP", default="")
    pod_ip: str = field(string, "podIP", default="")
    pod_ips: list[str] = field(list_of(string), "podIPs", default=list)
    qos_class: str = field(string, default="")
    start_time: str = field(string, default="")
    conditions: list[V1PodCondition] = field(list_of(record(V1PodCondition)), default=list)
    container_statuses: list[V1ContainerStatus] = field(list_of(record(V1ContainerStatus)), default=list)
    init_container_statuses: list[V1ContainerStatus] = field(list_of(record(V1ContainerStatus)), default=list)
    ephemeral_container_statuses: list[V1ContainerStatus] = field(list_of(record(V1ContainerStatus)), default=list)
