"""Network lists are written so that a runtime notices them that watches their folder with inotify."""

import ctypes
import os
import select
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.conformance.runtime_checks.networks import NETWORKS
from harness.conformance.runtime_checks.recorder import install as install_recorders
from harness.install.files import Content, install

# include/uapi/linux/inotify.h: those that fsnotify, the library of containerd, asks for
MODIFY, ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
PASSED_OVER = CREATE | MOVED_TO | ATTRIB
"""The events for which containerd does not read its network lists again (cni_conf_syncer.go of 1.6 to 2.x)."""
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    mask: int
    cookie: int
    name: str


class Watch:
    """An inotify watch of a folder."""

    def __init__(self, folder: Path) -> None:
        self.fd: int = _LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        mask = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE
        assert _LIBC.inotify_add_watch(self.fd, os.fsencode(folder), mask) > 0

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield events until there is none for that long."""
        while select.select([self.fd], [], [], seconds)[0]:
            content = os.read(self.fd, 1 << 16)
            while content:
                _, mask, cookie, length = _EVENT.unpack_from(content)
                end = _EVENT.size + length
                yield Event(mask, cookie, content[_EVENT.size : end].rstrip(b"\0").decode())
                content = content[end:]

    def close(self) -> None:
        os.close(self.fd)


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "net.d"
    folder.mkdir()
    return folder


@pytest.fixture
def watch(conf_dir: Path) -> Iterator[Watch]:
    watch = Watch(conf_dir)
    yield watch
    watch.close()


def read_lists(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in {".conf", ".conflist", ".json"})


def assert_noticed(watch: Watch, name: str) -> None:
    """Raise AssertionError unless an event that is not passed over comes when the list has its name."""
    events = list(watch.events(0.2))
    [named] = [event for event in events if event.mask == MOVED_TO and event.name == name]
    [left] = [event for event in events if event.mask == MOVED_FROM and event.cookie == named.cookie]
    assert not left.mask & PASSED_OVER
    assert left.name.startswith(".")
    assert Path(left.name).suffix not in {".conf", ".conflist", ".json"}


@pytest.mark.parametrize("is_there", [False, True])
def test_install_writes_a_list_by_rename_from_a_hidden_name(
    tmp_path: Path, conf_dir: Path, watch: Watch, *, is_there: bool
) -> None:
    path = conf_dir / "10-net.conflist"
    if is_there:
        install({path: Content(b"{}", 0o644)}, tmp_path / "state")
        list(watch.events(0.2))

    install({path: Content(b'{"name": "net"}', 0o644)}, tmp_path / "state")

    assert_noticed(watch, path.name)
    assert path.read_bytes() == b'{"name": "net"}'
    assert [each.name for each in conf_dir.iterdir()] == [path.name]


def test_witnesses_lists_are_written_by_rename_from_a_hidden_name(tmp_path: Path, conf_dir: Path, watch: Watch) -> None:
    network = NETWORKS[0]

    install_recorders(tmp_path / "records", tmp_path / "bin", conf_dir, [network])

    assert_noticed(watch, network.file)


def test_watcher_that_passes_over_new_names_has_each_of_twenty_lists(tmp_path: Path) -> None:
    """As containerd 2.x, which missed two of six."""
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        watch = Watch(folder)
        written = threading.Event()
        loaded: list[list[str]] = []

        def load(
            folder: Path = folder,
            watch: Watch = watch,
            written: threading.Event = written,
            loaded: list[list[str]] = loaded,
        ) -> None:
            is_over = False
            while not is_over:
                is_over = written.is_set()  # before the look: all events are in the queue then
                loaded.extend(read_lists(folder) for event in watch.events(0.02) if not event.mask & PASSED_OVER)

        thread = threading.Thread(target=load)
        thread.start()
        install({folder / "10-net.conflist": Content(b"{}", 0o644)}, tmp_path / "state")
        written.set()
        thread.join()
        watch.close()

        assert loaded
        assert loaded[-1] == ["10-net.conflist"]
