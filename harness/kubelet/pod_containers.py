"""The containers of a pod's manifest: by name, by kind, and as events name them."""

from api.container import V1Container
from api.pod import V1Pod


def all_containers(pod: V1Pod) -> list[V1Container]:
    """Return the containers of each kind, the regular ones first."""
    spec = pod.spec
    return [*spec.containers, *spec.init_containers, *spec.ephemeral_containers]


def container_of(pod: V1Pod, name: str) -> V1Container | None:
    """Return the container of this name."""
    return next((each for each in all_containers(pod) if each.name == name), None)


def field_path(pod: V1Pod, container: V1Container) -> str:
    """Return the path of a container in its pod, as events have it."""
    kinds = {"spec.initContainers": pod.spec.init_containers, "spec.ephemeralContainers": pod.spec.ephemeral_containers}
    kind = next((path for path, listed in kinds.items() if container in listed), "spec.containers")
    return f"{kind}{{{container.name}}}"


def is_sidecar(container: V1Container) -> bool:
    """Tell whether an init container is a sidecar, which runs as long as the pod (IsRestartableInitContainer)."""
    return container.restart_policy == "Always"
