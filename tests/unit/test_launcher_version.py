"""VERSION in a process of its own: the answer is the dispatcher's for every input, most often without loading it."""

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from launch import PLUGINS
from launch.launcher import launcher_bytes, launcher_text
from launch.plugin_list import load
from launch.version import SUPPORTED, VERSIONS_BY_CONFIG
from skel.dispatch import dispatch
from tests.nodes import HANG

VERSION = {"CNI_COMMAND": "VERSION"}

PLAIN = {
    "nothing": b"",
    "as Go writes it": b'{"cniVersion":"0.4.0"}',
    "the newest": b'{"cniVersion":"1.1.0"}',
    "with a line's end": b'{"cniVersion": "1.0.0"}\n',
    "with all white space": b' \t\r\n{ \t"cniVersion"\r :\n "0.1.0"\t} \r\n',
}

OTHER = {
    "white space alone": b" \n",
    "no JSON": b"hello",
    "one quotation mark": b'"',
    "empty object": b"{}",
    "empty list": b"[]",
    "a string": b'"cniVersion"',
    "five parts of no object": b'"cniVersion"::"1.0.0"',
    "a form feed before": b'\x0c{"cniVersion":"0.4.0"}',
    "a space of Unicode behind": b'{"cniVersion":"0.4.0"}\xc2\xa0',
    "a little too large": b'{"n":"' + b"x" * (1 << 16) + b'","cniVersion":"0.4.0"}',
    "null": b"null",
    "null inside": b'{"cniVersion":null}',
    "a number": b'{"cniVersion":1.0}',
    "a list": b'{"cniVersion":["0.4.0"]}',
    "an empty version": b'{"cniVersion":""}',
    "no version": b'{"cniVersion":"latest"}',
    "a later version": b'{"cniVersion":"2.0.0"}',
    "a short version": b'{"cniVersion":"1"}',
    "a version with a zero": b'{"cniVersion":"01.1.0"}',
    "a version with a space": b'{"cniVersion":" 1.0.0"}',
    "a version of four parts": b'{"cniVersion":"1.0.0.0"}',
    "a version of many digits": b'{"cniVersion":"1.0.' + b"0" * 5000 + b'"}',
    "a version with an escape": b'{"cniVersion":"1.0\\u002e0"}',
    "a version with a quotation mark": b'{"cniVersion":"1.0.0\\""}',
    "a version that is no UTF-8": b'{"cniVersion":"1.0.\xff"}',
    "other spelling": b'{"CNIVERSION":"0.3.0"}',
    "escaped key": b'{"cni\\u0056ersion":"0.3.0"}',
    "other key": b'{"cniversions":"0.3.0"}',
    "two spellings": b'{"CniVersion":"0.3.0","cniVersion":"0.4.0"}',
    "twice the same": b'{"cniVersion":"0.3.0","cniVersion":"0.4.0"}',
    "behind another key": b'{"name":"n","cniVersion":"0.4.0"}',
    "before another key": b'{"cniVersion":"0.4.0","name":"n"}',
    "before a bad number": b'{"cniVersion":"0.4.0","n":NaN}',
    "trailing comma": b'{"cniVersion":"0.4.0",}',
    "trailing brace": b'{"cniVersion":"0.4.0"}}',
    "cut off": b'{"cniVersion":"0.4.0"',
    "byte order mark": b'\xef\xbb\xbf{"cniVersion":"0.4.0"}',
    "UTF-16": '{"cniVersion":"0.4.0"}'.encode("utf-16"),
    "NUL": b'{"cniVersion":"0.4.0"}\0',
    "a comment": b'{"cniVersion":"0.4.0"}//',
    "larger than read at once": b'{"cniVersion":"0.4.0","n":"' + b"x" * 9000 + b'"}',
    "all but too large": b'{"cniVersion":"0.4.0"}' + b" " * ((1 << 16) - 22),
    "too large": b'{"cniVersion":"0.4.0","n":"' + b"x" * (1 << 17) + b'"}',
    "too deep": b'{"cniVersion":"0.4.0","n":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
}

INPUTS = PLAIN | OTHER


@pytest.fixture(scope="module", params=["compiled", "python"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a launcher for each plugin, which asks no server."""
    folder: Path = tmp_path_factory.mktemp("bin")
    content = launcher_bytes(socket="") if request.param == "compiled" else launcher_text(socket="")
    for name in PLUGINS:
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)
    return folder


def due(name: str, stdin: bytes) -> tuple[int, bytes, bytes]:
    """The dispatcher's answer; it sees the first 64 KiB of the input."""
    outcome = dispatch(load(name), VERSION, lambda: stdin[: 1 << 16])
    return outcome.code, outcome.stdout, outcome.stderr


def answered(ran: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
    return ran.returncode, ran.stdout, ran.stderr


def imported(stderr: bytes) -> set[str]:
    return set(re.findall(r"^import time: .*\| +([\w.]+)$", stderr.decode(), re.MULTILINE))


def test_short_answer_is_for_plugins_with_fixed_versions() -> None:
    assert {name for name in PLUGINS if callable(load(name).versions)} == VERSIONS_BY_CONFIG
    for name in PLUGINS.keys() - VERSIONS_BY_CONFIG:
        assert load(name).versions == SUPPORTED


@pytest.mark.mostly_slow(8, "each input as a file; a part is in make test")
@pytest.mark.parametrize("name", sorted({"bridge", *VERSIONS_BY_CONFIG}))
@pytest.mark.parametrize("stdin", INPUTS.values(), ids=INPUTS)
def test_a_file_as_input(folder: Path, tmp_path: Path, stdin: bytes, name: str) -> None:
    assert_answered(folder / name, tmp_path / "stdin", stdin)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("stdin", [PLAIN["as Go writes it"], OTHER["no version"]], ids=["plain", "other"])
def test_every_plugin_answers(folder: Path, tmp_path: Path, stdin: bytes) -> None:
    for name in PLUGINS:
        assert_answered(folder / name, tmp_path / "stdin", stdin)


def assert_answered(plugin: Path, file: Path, stdin: bytes) -> None:
    file.write_bytes(stdin)
    with file.open("rb") as opened:
        ran = subprocess.run([plugin], env=VERSION, stdin=opened, capture_output=True, timeout=HANG, check=False)

    assert answered(ran) == due(plugin.name, stdin)


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@pytest.mark.parametrize("stdin", [*PLAIN.values(), OTHER["trailing brace"], OTHER["other spelling"]])
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "left open"])
def test_a_pipe_as_input(folder: Path, stdin: bytes, *, ends: bool) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb", buffering=0) as end:
        end.write(stdin)
        if ends:
            end.close()

        ran = subprocess.run(
            [folder / "bridge"], env=VERSION, stdin=pipe, capture_output=True, timeout=HANG, check=False
        )

    assert answered(ran) == due("bridge", stdin)


@pytest.mark.parametrize("at", [1, 12, 21])
def test_an_input_that_comes_in_two_parts(folder: Path, at: int) -> None:
    """The second part makes it no JSON, and comes when the first has been read."""
    stdin = b'{"cniVersion":"0.4.0"}'
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(stdin[:at])

        def send_the_rest() -> None:
            while _unread(ours):
                pass
            ours.sendall(stdin[at:] + b"}")
            ours.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send_the_rest)
        sender.start()
        ran = subprocess.run(
            [folder / "bridge"], env=VERSION, stdin=theirs.fileno(), capture_output=True, timeout=HANG, check=False
        )
        sender.join()

    assert answered(ran) == due("bridge", stdin + b"}")


@pytest.mark.mostly_slow(4, "each request; a part is in make test")
@pytest.mark.parametrize("stdin", INPUTS.values(), ids=INPUTS)
def test_a_plain_request_loads_no_dispatcher(python_bin_dir: Path, stdin: bytes, tmp_path: Path) -> None:
    request = tmp_path / "request"  # a file, so that all of it is there before the plugin looks
    request.write_bytes(stdin)
    command: list[str | Path] = [sys.executable, "-IS", "-X", "importtime", python_bin_dir / "bridge"]
    with request.open("rb") as given:
        ran = subprocess.run(command, env=VERSION, stdin=given, capture_output=True, timeout=HANG, check=False)

    loaded = {module for module in imported(ran.stderr) if module.partition(".")[0] not in AT_START}
    if stdin in PLAIN.values():
        assert loaded == {"gc", "launch", "launch.version", "select"}
    else:
        assert "skel.dispatch" in loaded


def test_an_input_without_an_end_may_go_on(python_bin_dir: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb", buffering=0) as end:
        end.write(PLAIN["as Go writes it"])
        command: list[str | Path] = [sys.executable, "-IS", "-X", "importtime", python_bin_dir / "bridge"]
        ran = subprocess.run(command, env=VERSION, stdin=pipe, capture_output=True, timeout=HANG, check=False)

    assert "skel.dispatch" in imported(ran.stderr)
    assert ran.stdout == due("bridge", PLAIN["as Go writes it"])[1]


AT_START = {
    module.partition(".")[0]
    for module in imported(
        subprocess.run(
            [sys.executable, "-IS", "-X", "importtime", "-c", "pass"], capture_output=True, check=True
        ).stderr
    )
}


def _unread(sender: socket.socket) -> int:
    """Return the bytes sent that nobody has read (SIOCOUTQ of unix(7))."""
    import array
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(sender, termios.TIOCOUTQ, count)
    return count[0]
