"""Whether a container's image is there, or is pulled (kubelet's images/image_manager.go)."""

import time
from collections.abc import Callable

from api.container import V1Container
from api.formats import format_duration
from harness.cri.messages import Image
from harness.cri.service import ImageService, RuntimeServiceError
from harness.kubelet.events import NORMAL, WARNING
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.sync.backoff import Backoff

Recorder = Callable[[str, str, str], None]
"""Records an event of a container: type, reason, message."""


class ContainerImages:
    """Images for containers; failed pulls are repeated after growing delays."""

    def __init__(self, images: ImageService, backoff: Backoff) -> None:
        self._images = images
        self._backoff = backoff
        self._failures: dict[str, str] = {}

    def ensure(self, container: V1Container, pod_uid: str, record: Recorder) -> Image | None:
        """Return the image of a container, None if it names none. Raises StartError with the reason of waiting."""
        if not container.image:
            if self._images.are_required:
                message = "the container names no image, and only the runtime of cni-harness runs one without"
                record(WARNING, "InspectFailed", message)
                raise StartError("InvalidImageName", message)
            return None
        last = container.image.rpartition("/")[2]
        # As kubelet's applyDefaultImageTag.
        name = container.image if ":" in last or "@" in last else f"{container.image}:latest"
        image = None if container.image_pull_policy == "Always" else self._status(name, record)
        if image is not None:
            present = "already present on machine and can be accessed by the pod"
            record(NORMAL, "Pulled", f'Container image "{container.image}" {present}')
            return image
        if container.image_pull_policy == "Never":
            message = f'Container image "{container.image}" is not present with pull policy of Never'
            record(WARNING, "ErrImageNeverPull", message)
            raise StartError("ErrImageNeverPull", message)
        return self._pull(container.image, name, f"{pod_uid}_{name}", record)

    def _pull(self, shown: str, name: str, key: str, record: Recorder) -> Image:
        if self._backoff.is_in_backoff(key):
            message = f'Back-off pulling image "{shown}"'
            record(NORMAL, "BackOff", message)
            failure = self._failures.get(key, "")
            raise StartError("ImagePullBackOff", f"{message}: {failure}" if failure else message)
        record(NORMAL, "Pulling", f'Pulling image "{shown}"')
        started = time.monotonic()
        try:
            image = self._pulled(name)
        except RuntimeServiceError as error:
            record(WARNING, "Failed", f'Failed to pull image "{shown}": {error}')
            self._backoff.next(key)
            self._failures[key] = f"ErrImagePull: {error}"
            raise StartError("ErrImagePull", str(error)) from error
        took = format_duration(round(time.monotonic() - started, 3))
        message = (
            f'Successfully pulled image "{shown}" in {took} ({took} including waiting). Image size: {image.size} bytes.'
        )
        record(NORMAL, "Pulled", message)
        self._failures.pop(key, None)
        return image

    def _pulled(self, name: str) -> Image:
        image = self._images.image_status(self._images.pull_image(name))
        if image is None:
            raise RuntimeServiceError(f"{name} is not there after its pull")
        return image

    def _status(self, name: str, record: Recorder) -> Image | None:
        try:
            return self._images.image_status(name)
        except RuntimeServiceError as error:
            message = f'Failed to inspect image "{name}": {error}'
            record(WARNING, "InspectFailed", message)
            raise StartError("ImageInspectError", message) from error
