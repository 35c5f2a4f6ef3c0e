"""What in the folder is no regular file hangs no verb, and nothing is written through a symbolic link."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ipam.reservation import make_file
from tests.unit.host_local import HostLocal

LIMIT_S = 60
"""Seconds after which a verb hangs."""


def run(net: HostLocal, verb: str) -> subprocess.CompletedProcess[str]:
    """Carry out a verb in a process of its own, which a hang can be told of."""
    script = (
        "import json, sys; from pathlib import Path; from tests.unit.host_local import HostLocal; "
        f"net = HostLocal(Path({str(net.data_dir)!r})); "
        f"ran = net.run({verb!r}, **{{'cni.dev/valid-attachments': []}}); "
        "print((ran.printed or {}).get('msg', '')); sys.exit(ran.code)"
    )
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def link_elsewhere(path: Path) -> None:
    path.symlink_to("../elsewhere")


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


KINDS: list[Callable[[Path], object]] = [os.mkfifo, link_elsewhere, listen]

kinds = pytest.mark.parametrize("make", KINDS, ids=["FIFO", "link", "socket"])


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    """A network with one reservation, and a file beside its folder that is nobody's to write."""
    net = HostLocal(tmp_path)
    net.add("first")
    (tmp_path / "elsewhere").write_text("left alone")
    return net


def replace(net: HostLocal, name: str, make: Callable[[Path], object]) -> None:
    (net.folder / name).unlink(missing_ok=True)
    make(net.folder / name)


@pytest.mark.parametrize("verb", ["ADD", "DEL", "CHECK", "GC"])
@kinds
def test_a_lock_that_is_no_regular_file_is_refused(net: HostLocal, make: Callable[[Path], object], verb: str) -> None:
    replace(net, "lock", make)

    ran = run(net, verb)

    assert ran.returncode == 1
    assert ran.stdout == f"ipam.dataDir: {net.folder}/lock: not a regular file\n"
    assert net.fail("STATUS") == (50, f"ipam.dataDir: {net.folder}/lock is not a regular file")


def test_no_lock_is_made_behind_a_link(net: HostLocal, tmp_path: Path) -> None:
    (net.folder / "lock").unlink()
    (net.folder / "lock").symlink_to("../new")

    assert net.fail("ADD")[0] == 5
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["last_reserved_ip.0", ".owners"])
@kinds
def test_rewritten_path_becomes_a_regular_file(
    net: HostLocal, tmp_path: Path, make: Callable[[Path], object], name: str
) -> None:
    replace(net, name, make)

    assert run(net, "ADD").returncode == 0

    assert (net.folder / name).is_file()
    assert not (net.folder / name).is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "left alone"
    net.succeed("DEL")
    assert set(net.reservations().values()) == {"first\r\neth0"}
    assert net.is_sealed()


@kinds
def test_a_reservation_that_is_no_regular_file_is_taken_and_stays(
    net: HostLocal, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(net.folder / "192.0.2.3")

    assert run(net, "ADD").returncode == 0
    assert net.names().count("192.0.2.4") == 1
    assert run(net, "DEL").returncode == 0
    assert os.path.lexists(net.folder / "192.0.2.3")
    assert (tmp_path / "elsewhere").read_text() == "left alone"


@pytest.mark.parametrize("has_unnamed_files", [True, False])
@pytest.mark.parametrize("is_link", [True, False])
def test_file_that_comes_while_a_reservation_is_made_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_link: bool, has_unnamed_files: bool
) -> None:
    (tmp_path / "precious").write_text("kept")
    path = tmp_path / "192.0.2.1"
    opened = os.open

    def planted(name: str, flags: int, *args: int, **settings: int) -> int:
        if not os.path.lexists(path):
            path.symlink_to("precious") if is_link else path.write_text("kept")
        if flags & os.O_TMPFILE == os.O_TMPFILE and not has_unnamed_files:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(name, flags, *args, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", planted)
        with pytest.raises(FileExistsError):
            make_file(str(path), b"new", lambda _: None)

    assert path.is_symlink() is is_link
    assert (path.read_text(), (tmp_path / "precious").read_text()) == ("kept", "kept")
