"""Which containers are started again (kubelet's ShouldContainerBeRestarted and the API's restart policies)."""

from typing import Final

from api.container import V1Container
from api.pod import V1Pod
from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus

ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"


def restarts_after_exit(pod: V1Pod, container: V1Container, exit_code: int) -> bool:
    """Tell whether a container that ended with this code is started again (ContainerShouldRestart).

    The container's own policy goes before the pod's; an unknown policy counts as Always.
    """
    policy = container.restart_policy or pod.spec.restart_policy
    return exit_code != 0 if policy == ON_FAILURE else policy != NEVER


def restarts_after_kill(pod: V1Pod, container: V1Container) -> bool:
    """Tell whether a container is started again after kubelet has ended it, whatever its exit code."""
    return (container.restart_policy or pod.spec.restart_policy) != NEVER


def should_container_be_restarted(pod: V1Pod, container: V1Container, status: RuntimePodStatus) -> bool:
    """Tell whether a container is to be started, for the first time or again (ShouldContainerBeRestarted).

    A container of a pod that is being deleted is not; one that is unknown to the runtime, in an unknown state, or
    created and not started is. Restart policies are for the others that do not run.
    """
    if pod.metadata.deletion_timestamp:
        return False
    newest = status.newest(container.name)
    if newest is None or newest.state in {ContainerState.UNKNOWN, ContainerState.CREATED}:
        return True
    if newest.state is ContainerState.RUNNING:
        return False
    return restarts_after_exit(pod, container, newest.exit_code)


def has_succeeded(container: V1Container, status: RuntimePodStatus) -> bool:
    """Tell whether the newest attempt of a container has ended with code 0 (containerSucceeded)."""
    newest = status.newest(container.name)
    return newest is not None and newest.state is ContainerState.EXITED and newest.exit_code == 0


def init_container_failed(newest: ContainerStatus) -> bool:
    """Tell whether an init container that has exited has failed; OOMKilled is a failure with any code."""
    return newest.reason == "OOMKilled" or newest.exit_code != 0


def any_regular_container(pod: V1Pod, status: RuntimePodStatus, *states: ContainerState) -> bool:
    """Tell whether a regular container exists in one of these states: the init containers have ended then."""
    newest = (status.newest(container.name) for container in pod.spec.containers)
    return any(found is not None and found.state in states for found in newest)
