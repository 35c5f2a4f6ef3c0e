"""Files that are whole or not there, and locks that outlive their files."""

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.files import LockHeldError, locked, open_regular, read_end, read_regular, remove_tree, write_atomically
from tests.cli import is_waited_for
from tests.nodes import HANG, until


def test_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    write_atomically(tmp_path / "file", b"new", mode=0o750)

    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "file", b"")
    finally:
        os.umask(before)

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    with (tmp_path / "file").open("rb") as reader:
        write_atomically(tmp_path / "file", b"new")

        assert reader.read() == b"old"


def test_running_program_can_be_replaced(tmp_path: Path) -> None:
    program = tmp_path / "program"
    write_atomically(program, Path("/bin/cat").read_bytes(), mode=0o755)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        write_atomically(program, b"#!/bin/sh\nexit 3\n", mode=0o755)

        assert subprocess.run([program], check=False).returncode == 3
        assert running.communicate(b"still here")[0] == b"still here"


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"old")

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "file", b"new")

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_lock_excludes_threads_too(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(LockHeldError), locked(tmp_path / "lock", wait=False):
        pass


def test_shared_locks_do_not_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, shared=True),
        locked(path, shared=True, wait=False),
        pytest.raises(LockHeldError),
        locked(path, wait=False),
    ):
        pass


def test_waiter_for_a_removed_lock_file_gets_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    got_it = threading.Event()

    def wait() -> None:
        with locked(path):
            assert path.exists()
            got_it.set()

    waiter = threading.Thread(target=wait)
    with locked(path):
        waiter.start()
        until(lambda: is_waited_for(path))
        path.unlink()
        path.parent.rmdir()
    waiter.join(HANG)

    assert got_it.is_set()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_fifo, _link, _device, Path.mkdir])
def test_anything_but_a_regular_file_is_refused_without_delay(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "file")

    for read in (open_regular, lambda path: read_regular(path, 10), lambda path: read_end(path, 10)):
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path / "file")


def test_link_is_followed_on_demand_but_not_to_a_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "device").symlink_to("/dev/zero")

    assert read_regular(tmp_path / "link", 3, follow=True) == b"tex"
    assert read_end(tmp_path / "file", 3) == b"ext"
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "device", 3, follow=True)


def test_leased_file_is_refused_without_delay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with (tmp_path / "file").open("r+b") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            with pytest.raises(BlockingIOError):
                read_regular(tmp_path / "file", 3)
        finally:
            signal.signal(signal.SIGIO, before)


def _deep(folder: Path, levels: int = 3000) -> None:
    """Make folders in folders, more than a process may have open files, as a container could."""
    folder.mkdir()
    here = os.open(folder, os.O_PATH)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.parametrize(("frames", "files"), [(1000, 4096), (100_000, 512)])
def test_tree_of_thousands_of_levels_is_removed(tmp_path: Path, frames: int, files: int) -> None:
    _deep(tmp_path / "tree")
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "kept")
    before, limits = sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_NOFILE)
    sys.setrecursionlimit(frames)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, limits[1]), limits[1]))
    try:
        remove_tree(tmp_path / "tree")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sys.setrecursionlimit(before)
        left = (tmp_path / "tree").exists()
        subprocess.run(["rm", "-rf", tmp_path / "tree"], check=True)  # pytest cannot remove it

    assert not left
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "tree")
