"""The status of a pod (Kubernetes API v1, PodStatus): what kubelet tells of it.

Times are RFC 3339 in UTC, empty for "not yet"; conditions' `status` is True, False or Unknown, as text.
"""

from typing import Final

from api.container import V1Resources
from api.object import V1Object, field
from api.values import Int32, Int64

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


class V1StateWaiting(V1Object):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class V1StateRunning(V1Object):
    """A container that runs."""

    started_at: str = ""


class V1StateTerminated(V1Object):
    """A container that has ended."""

    exit_code: Int32 = field(default=0, always=True)
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = ""


class V1ContainerState(V1Object):
    """Exactly one is set."""

    waiting: V1StateWaiting | None = None
    running: V1StateRunning | None = None
    terminated: V1StateTerminated | None = None


class V1LinuxUser(V1Object):
    """The user of a container's first process, by numbers."""

    uid: Int64 = field(default=0, always=True)
    gid: Int64 = field(default=0, always=True)
    supplemental_groups: list[Int64] = []


class V1ContainerUser(V1Object):
    """The user of a container; there is no other system than Linux here."""

    linux: V1LinuxUser


class V1ContainerStatus(V1Object):
    """A container; `container_id` begins with the runtime's name and `://`.

    `resources` and `allocated_resources`, the requests, are the manifest's, once there is a container.
    """

    ready: bool = field(default=False, always=True)
    restart_count: Int32 = field(default=0, always=True)
    image: str = field(default="", always=True)
    image_id: str = field(default="", always=True)
    last_state: V1ContainerState = V1ContainerState()
    state: V1ContainerState = V1ContainerState()
    name: str
    started: bool | None = None
    container_id: str = ""
    allocated_resources: dict[str, str] = {}
    resources: V1Resources | None = None
    user: V1ContainerUser | None = None


class V1PodCondition(V1Object):
    """One of PodScheduled, PodReadyToStartContainers, Initialized, ContainersReady, Ready."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class V1PodStatus(V1Object):
    """The state of a pod as its kubelet knows it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    pod_ips: list[str] = []
    qos_class: str = ""
    start_time: str = ""
    conditions: list[V1PodCondition] = []
    container_statuses: list[V1ContainerStatus] = []
    init_container_statuses: list[V1ContainerStatus] = []
    ephemeral_container_statuses: list[V1ContainerStatus] = []
