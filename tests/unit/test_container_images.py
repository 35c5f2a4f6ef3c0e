"""A missing image is looked for again after each delay, and so is found once it is there."""

from pathlib import Path

import pytest

from api.container import V1Container
from harness.containerd.images import Images
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.sync.backoff import Backoff
from harness.kubelet.sync.container_images import ContainerImages
from tests.unit.test_kubelet_backoff import Clock


def test_a_missing_image_is_pulled_again_after_each_delay(tmp_path: Path) -> None:
    clock = Clock()
    images = ContainerImages(Images(tmp_path), Backoff(clock=clock))
    container = V1Container(name="app", image="nowhere.test/none:1", image_pull_policy="Always")
    events: list[str] = []

    def reason(after_s: float) -> str:
        clock.now += after_s
        with pytest.raises(StartError) as error:
            images.ensure(container, "uid", lambda _type, event, _message: events.append(event))
        return error.value.reason

    reasons = [reason(after_s) for after_s in (0, 0, 9, 1, 10, 9, 1)]

    failed, waits = "ErrImagePull", "ImagePullBackOff"
    assert reasons == [failed, waits, waits, failed, waits, waits, failed]
    assert events.count("Pulling") == 3
