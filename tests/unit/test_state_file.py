"""State files of plugins: whole or not there, one for each attachment, never outside their folder."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skel import CniError
from skel.state_file import StateFiles, write_whole
from tests.cli import ROOT

STATE = {"ifname": "enp1s0", "mtu": 9000, "sysctls": {"net/ipv4/ip_forward": "1"}, "name": "größe"}


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    return StateFiles(str(tmp_path / "data" / "network"))


def stored(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "data" / "network"
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_state_is_read_as_it_was_written(tmp_path: Path, files: StateFiles) -> None:
    files.write("pod1", "eth0", {"old": True})
    files.write("pod1", "eth0", STATE)

    assert files.read("pod1", "eth0") == STATE
    assert {name: json.loads(text) for name, text in stored(tmp_path).items()} == {"pod1:eth0": STATE}


def test_state_file_is_readable_by_root_alone_under_any_umask(tmp_path: Path, files: StateFiles) -> None:
    before = os.umask(0)
    try:
        files.write("pod1", "eth0", STATE)
    finally:
        os.umask(before)

    assert (tmp_path / "data" / "network").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "network" / "pod1:eth0").stat().st_mode & 0o777 == 0o600


def test_missing_state_is_none_and_removed_without_an_error(files: StateFiles) -> None:
    assert files.read("pod1", "eth0") is None
    assert files.attachments() == []
    files.remove("pod1", "eth0")

    files.write("pod1", "eth0", STATE)
    files.remove("pod1", "eth0")

    assert files.read("pod1", "eth0") is None


def test_attachments_do_not_share_a_file(files: StateFiles) -> None:
    pairs = [("a", "b-c"), ("a-b", "c"), ("a_b", "c"), ("a.b", "c.json"), ("a", "b@c"), ("x", "ü.1")]
    for number, pair in enumerate(pairs):
        files.write(*pair, {"number": number})

    assert [files.read(*pair) for pair in pairs] == [{"number": number} for number in range(len(pairs))]
    assert sorted(files.attachments()) == sorted(pairs)


@pytest.mark.parametrize(
    ("container_id", "ifname"),
    [("../pod", "eth0"), ("", "eth0"), (".pod", "eth0"), ("a/b", "eth0"), ("a:b", "eth0"), ("a", "../x"), ("a", "..")],
)
def test_a_name_that_leads_elsewhere_is_refused(
    tmp_path: Path, files: StateFiles, container_id: str, ifname: str
) -> None:
    with pytest.raises(CniError, match=r"^CNI_"):
        files.read(container_id, ifname)
    with pytest.raises(CniError, match=r"^CNI_"):
        files.remove(container_id, ifname)
    with pytest.raises(CniError, match=r"^CNI_"):
        files.write(container_id, ifname, STATE)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "\xff"])
def test_a_file_that_holds_anything_else_is_named(tmp_path: Path, files: StateFiles, content: str) -> None:
    files.write("pod1", "eth0", STATE)
    path = tmp_path / "data" / "network" / "pod1:eth0"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(CniError, match=str(path)) as raised:
        files.read("pod1", "eth0")

    assert raised.value.code == 6


CRASH = """\
import os, sys
sys.path[:0] = {path!r}
from skel.state_file import StateFiles
files = StateFiles({folder!r})
left = {step}
def count(event, args):
    global left
    if event.partition(".")[0] in ("open", "os"):
        left -= 1
        if left < 0:
            os._exit(77)
files.write("pod0", "eth0", {{}})
sys.addaudithook(count)
files.write("pod1", "eth0", {{"state": "new"}})
os._exit(0)
"""


def test_a_crash_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    """The process ends before each of its calls that open, change or name a file."""
    found = []
    for step in range(20):
        files = StateFiles(str(tmp_path / str(step)))
        files.write("pod1", "eth0", {"state": "old"})
        program = CRASH.format(path=[str(ROOT)], folder=str(tmp_path / str(step)), step=step)
        code = subprocess.run([sys.executable, "-IS", "-c", program], check=False).returncode
        state = files.read("pod1", "eth0")
        assert state is not None
        found.append(state["state"])
        files.write("pod1", "eth0", {"state": "after"})
        assert {path.name for path in (tmp_path / str(step)).iterdir()} == {"pod0:eth0", "pod1:eth0"}
        if code == 0:
            break
        assert code == 77

    assert found[-1] == "new"
    assert set(found[:-1]) == {"old"}
    assert len(found) > 4


def test_a_disk_that_takes_a_part_leaves_the_old_state(files: StateFiles, tmp_path: Path) -> None:
    files.write("pod1", "eth0", STATE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.write("pod1", "eth0", {"text": "x" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert files.read("pod1", "eth0") == STATE
    assert set(stored(tmp_path)) == {"pod1:eth0"}


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, files: StateFiles) -> None:
    files.write("pod1", "eth0", {})
    target = tmp_path / "target"
    target.write_text("another's")
    (tmp_path / "data" / "network" / ".pod1:eth0.new").symlink_to(target)
    files.write("pod1", "eth0", STATE)

    assert target.read_text() == "another's"
    assert files.read("pod1", "eth0") == STATE


def _link(path: Path) -> None:
    path.symlink_to("../precious")


def _file(path: Path) -> None:
    path.write_text("kept")


@pytest.mark.parametrize("has_unnamed_files", [True, False])
@pytest.mark.parametrize("plant", [_link, _file])
def test_planted_file_at_the_temporary_name_is_neither_followed_nor_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path], None], *, has_unnamed_files: bool
) -> None:
    (tmp_path / "precious").write_text("kept")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("old")
    plant(folder / ".file.aabbccdd.tmp")
    monkeypatch.setattr(os, "urandom", lambda _: bytes.fromhex("aabbccdd"))
    opened = os.open

    def without_unnamed_files(path: str, flags: int, *args: int, **settings: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE and not has_unnamed_files:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *args, **settings)

    monkeypatch.setattr(os, "open", without_unnamed_files)
    with pytest.raises(FileExistsError):
        write_whole(str(folder / "file"), b"new", mode=0o600)

    assert (folder / "file").read_text() == "old"
    assert (folder / ".file.aabbccdd.tmp").read_text() == "kept"
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_file_keeps_owner_and_mode_of_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    os.chown(path, 12, 34)
    write_whole(str(path), b"new", mode=0o600, like=path.stat())

    status = path.stat()
    assert (path.read_text(), status.st_mode & 0o7777, status.st_uid, status.st_gid) == ("new", 0o640, 12, 34)


def test_fifo_and_folder_are_no_state_and_do_not_hang(tmp_path: Path, files: StateFiles) -> None:
    files.write("pod1", "eth0", STATE)
    folder = tmp_path / "data" / "network"
    os.mkfifo(folder / "pod2:eth0")
    (folder / "pod3:eth0").mkdir()

    assert files.attachments() == [("pod1", "eth0")]
    assert files.strays() == [str(folder / "pod2:eth0"), str(folder / "pod3:eth0")]
    with pytest.raises(CniError, match="pod2:eth0: not a regular file"):
        files.read("pod2", "eth0")
    with pytest.raises(CniError, match="pod3:eth0: not a regular file"):
        files.read("pod3", "eth0")
