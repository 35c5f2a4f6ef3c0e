import os
from pathlib import Path

import pytest

from harness.containerd.container_log import MAX_TEXT, ContainerLog, entries

_STAMP = b"2026-01-02T03:04:05.000000006Z"


@pytest.mark.parametrize(
    ("text", "tagged", "rest"),
    [
        (b"one\ntwo\nthr", [b"F one", b"F two"], b"thr"),
        (b"\n", [b"F "], b""),
        (b"windows\r\n", [b"F windows"], b""),
        (b"x" * MAX_TEXT + b"\n", [b"F " + b"x" * MAX_TEXT], b""),
        (b"x" * MAX_TEXT + b"y\n", [b"P " + b"x" * MAX_TEXT, b"F y"], b""),
        (b"x" * MAX_TEXT, [], b"x" * MAX_TEXT),
        (b"x" * MAX_TEXT * 2 + b"y", [b"P " + b"x" * MAX_TEXT] * 2, b"y"),
    ],
)
def test_lines_become_entries(text: bytes, tagged: list[bytes], rest: bytes) -> None:
    written, waiting = entries(_STAMP, "stdout", text)

    assert [_STAMP + b" stdout " + each for each in tagged] == written.splitlines()
    assert waiting == rest


def test_the_end_without_a_newline_is_a_part() -> None:
    assert entries(_STAMP, "stderr", b"end", ended=True) == (_STAMP + b" stderr P end\n", b"")


def test_streams_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "pod/app/0.log"
    log = ContainerLog(str(path))

    log.write("stdout", b"o")
    log.write("stderr", b"e\n")
    log.write("stdout", b"ut\n")
    log.write("stdout", b"", ended=True)

    assert [line.split(" ", 1)[1] for line in path.read_text().splitlines()] == ["stderr F e", "stdout F out"]


def test_only_owner_and_group_may_read_a_log(tmp_path: Path) -> None:
    ContainerLog(str(tmp_path / "app/0.log"))

    assert (tmp_path / "app/0.log").stat().st_mode & 0o777 == 0o640


def test_without_a_path_there_is_no_log() -> None:
    ContainerLog("").write("stdout", b"text\n")


@pytest.mark.parametrize("is_read", [True, False])
def test_fifo_instead_of_the_log_is_refused(tmp_path: Path, *, is_read: bool) -> None:
    os.mkfifo(tmp_path / "log")
    readers = [os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)] if is_read else []
    try:
        with pytest.raises(OSError, match="not a regular file" if is_read else "No such device"):
            ContainerLog(str(tmp_path / "log"))
    finally:
        for reader in readers:
            os.close(reader)


def test_link_instead_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("precious")
    (tmp_path / "precious").write_text("kept")

    with pytest.raises(OSError, match="symbolic links"):
        ContainerLog(str(tmp_path / "log")).write("stdout", b"lost\n")

    assert (tmp_path / "precious").read_text() == "kept"
