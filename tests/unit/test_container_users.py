import os
from pathlib import Path

import pytest

from harness.containerd.process_settings import user_of
from harness.cri.messages import ContainerSecurity
from harness.cri.service import RuntimeServiceError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nweb:x:1000:1001::/home/web:/bin/sh\nbad\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nweb:x:1001:\nextra:x:1002:web,root\n")
    return tmp_path


@pytest.mark.parametrize(
    ("image_user", "expected"),
    [
        ("", (0, 0, (0, 1002), "/root")),
        ("web", (1000, 1001, (1001, 1002), "/home/web")),
        ("1000", (1000, 1001, (1001, 1002), "/home/web")),
        ("web:extra", (1000, 1002, (1002,), "/home/web")),
        ("5", (5, 0, (0,), "/")),
        ("5:6", (5, 6, (6,), "/")),
    ],
)
def test_the_image_names_its_user(root: Path, image_user: str, expected: object) -> None:
    assert user_of(root, ContainerSecurity(), image_user) == expected


def test_user_of_the_request_wins(root: Path) -> None:
    security = ContainerSecurity(run_as_user=1000, run_as_group=7, supplemental_groups=[8, 7])

    assert user_of(root, security, "root") == (1000, 7, (7, 1002, 8), "/home/web")


@pytest.mark.parametrize("user", ["nobody", "web:nogroup"])
def test_a_name_must_be_in_the_image(root: Path, user: str) -> None:
    with pytest.raises(RuntimeServiceError, match="no such entry in /etc/"):
        user_of(root, ContainerSecurity(), user)


def test_a_group_alone_is_an_error(root: Path) -> None:
    with pytest.raises(RuntimeServiceError, match='user group "7" is specified without user'):
        user_of(root, ContainerSecurity(run_as_group=7), "")


def test_a_link_does_not_lead_out_of_the_image(root: Path) -> None:
    (root / "etc/passwd").unlink()
    (root / "etc/passwd").symlink_to("/etc/passwd")

    assert user_of(root, ContainerSecurity(), "0").home == "/"


def test_fifo_in_the_image_has_no_users(root: Path) -> None:
    for name in ("passwd", "group"):
        (root / "etc" / name).unlink()
        os.mkfifo(root / "etc" / name)
    writers = [os.open(root / "etc" / name, os.O_RDWR | os.O_NONBLOCK) for name in ("passwd", "group")]
    try:
        assert user_of(root, ContainerSecurity(), "5") == (5, 0, (0,), "/")
    finally:
        for writer in writers:
            os.close(writer)
