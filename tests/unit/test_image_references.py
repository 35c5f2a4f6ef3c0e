import pytest

from harness.containerd.images import normalized


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("user/image", "docker.io/user/image:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox:1", "docker.io/library/busybox:1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost/image", "localhost/image:latest"),
        ("localhost:5000/image", "localhost:5000/image:latest"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b:1"),
        ("busybox:1@sha256:00", "docker.io/library/busybox@sha256:00"),
    ],
)
def test_references_are_normalized(reference: str, expected: str) -> None:
    assert normalized(reference) == expected
