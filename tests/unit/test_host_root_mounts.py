"""The mounts of the node that a container without an image gets, too."""

import os

import pytest

from harness.containerd.host_root import copies_of

pytestmark = pytest.mark.sudo


def test_mount_that_vanishes_is_left_out() -> None:
    copies = copies_of(["/proc", "/proc/a-mount-point-that-is-gone"])

    for _, copy in copies:
        os.close(copy)
    assert [path for path, _ in copies] == ["/proc"]
