"""The ImageService of a runtime behind a socket."""

import grpc

from harness.cri.messages import Image
from harness.cri.remote import answers, api_pb2
from harness.cri.remote.api_pb2_grpc import ImageServiceStub
from harness.cri.remote.errors import translated
from harness.cri.remote.requests import image_spec


class RemoteImages:
    """An ImageService; each method raises RuntimeServiceError."""

    are_required = True

    def __init__(self, channel: grpc.Channel, timeout_s: float) -> None:
        """Take an open channel, and the seconds that a call may take."""
        self._stub = ImageServiceStub(channel)
        self._timeout_s = timeout_s

    def list_images(self) -> list[Image]:
        """Return all images."""
        with translated():
            answer: api_pb2.ListImagesResponse = self._stub.ListImages(
                api_pb2.ListImagesRequest(), timeout=self._timeout_s
            )
        return [answers.image(each) for each in answer.images]

    def image_status(self, image: str) -> Image | None:
        """Return the image of a reference or an ID; None if the runtime does not have it."""
        request = api_pb2.ImageStatusRequest(image=image_spec(image))
        with translated():
            answer: api_pb2.ImageStatusResponse = self._stub.ImageStatus(request, timeout=self._timeout_s)
        return answers.image(answer.image) if answer.HasField("image") else None

    def pull_image(self, image: str) -> str:
        """Fetch an image, without a time limit as in kubelet, and return its ID."""
        with translated():
            answer: api_pb2.PullImageResponse = self._stub.PullImage(api_pb2.PullImageRequest(image=image_spec(image)))
        return answer.image_ref

    def remove_image(self, image: str) -> None:
        """Remove an image. A missing one is fine."""
        with translated():
            self._stub.RemoveImage(api_pb2.RemoveImageRequest(image=image_spec(image)), timeout=self._timeout_s)
