"""What the API server fills into a pod (apis/core/v1/defaults.go), beyond the defaults of single fields."""

import re
from typing import Final

from api.pod import V1EmptyDirVolume, V1Pod
from api.quantity import parse_quantity

_TAG: Final = re.compile(r":([\w][\w.-]{0,127})$")


def with_defaults(pod: V1Pod) -> V1Pod:
    """Return a copy of the pod with the API server's defaults in the empty fields."""
    pod = pod.copy(fill=True)
    spec = pod.spec
    for volume in spec.volumes:
        if not volume.members():
            volume.empty_dir = V1EmptyDirVolume()
    for container in spec.all_containers():
        container.image_pull_policy = container.image_pull_policy or _pull_policy(container.image)
        for amounts in (container.resources.limits, container.resources.requests):
            for name, text in amounts.items():
                amounts[name] = str(parse_quantity(text).rounded_up_to_milli())
    for container in [*spec.containers, *spec.init_containers]:
        container.resources.requests = container.resources.limits | container.resources.requests
        for port in container.ports:
            if spec.host_network and not port.host_port:
                port.host_port = port.container_port
    return pod


def _pull_policy(image: str) -> str:
    """Return Always for the tag `latest`, which an image without tag and digest has, else IfNotPresent."""
    if not image:
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = _TAG.search(name)
    return "Always" if (tag[1] if tag else "" if digest else "latest") == "latest" else "IfNotPresent"
