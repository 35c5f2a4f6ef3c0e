"""Launchers under test, and a server for them that does each thing that a server may do."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from launch import launcher
from launch.server.protocol import (
    CALLER_DESCRIPTORS,
    DESCRIPTORS,
    GO,
    MAX_REQUEST_BYTES,
    MAX_SHORT_PACKET_BYTES,
    READY,
    TOKEN_BYTES,
    LauncherRequest,
    decode_request,
    encode_answer,
)
from skel import SUPPORTED
from tests.nodes import HANG, until

VERSION = {"CNI_COMMAND": "VERSION"}
DIRECT = json.dumps({"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}).encode() + b"\n"


class Withdrawn(Exception):  # noqa: N818 -- an outcome, no error
    """The launcher has closed the connection without a request."""


class Conversation:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(HANG)
        self.request: LauncherRequest | None = None
        self.files: list[int] = []
        self.token: list[int] = []
        self.stdin: list[int] = []
        """Empty if it was closed."""

    @property
    def pid(self) -> int:
        credentials = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], sys.byteorder)

    def read_request(self) -> LauncherRequest:
        packet, files = self._receive(MAX_REQUEST_BYTES, DESCRIPTORS)
        if not packet:
            raise Withdrawn
        self.files, self.token = files[:CALLER_DESCRIPTORS], files[CALLER_DESCRIPTORS:][:1]
        self.stdin = files[CALLER_DESCRIPTORS + 1 :]
        self.request = decode_request(packet)
        return self.request

    def accept(self) -> LauncherRequest:
        """Read the request and take its token."""
        request = self.read_request()
        assert self.take()
        return request

    def take(self) -> bool:
        """Take the token; tell whether it was there."""
        try:
            return len(os.read(self.token[0], TOKEN_BYTES)) == TOKEN_BYTES
        except BlockingIOError:
            return False

    def ask(self) -> None:
        """Have the launcher confirm that it is there."""
        self.connection.send(READY)
        assert self._receive(MAX_SHORT_PACKET_BYTES, 0) == (GO, [])

    def _receive(self, size: int, most: int) -> tuple[bytes, list[int]]:
        packet, descriptors, flags, _ = socket.recv_fds(self.connection, size, most, socket.MSG_CMSG_CLOEXEC)
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        return packet, descriptors

    def finish(self, code: int = 0, stderr: bytes = b"", stdout: bytes = b"") -> None:
        self.forget()
        for packet in encode_answer(code, stderr, stdout):
            self.connection.send(packet)

    def forget(self) -> None:
        for descriptors in (self.files, self.token, self.stdin):
            while descriptors:
                os.close(descriptors.pop())

    def says_something(self, within: float = 0.2) -> bool:
        return select.select([self.connection], [], [], within)[0] != []

    def rest(self) -> list[bytes]:
        """The launcher's last bytes, until it closes."""
        return list(iter(lambda: self.connection.recv(100), b""))


Script = Callable[[Conversation], object]


class Server:
    """Listens at `path` and runs `script` for each connection, one after the other; `talks` are those that ended."""

    def __init__(self, path: Path, script: Script, backlog: int = 1000) -> None:
        self.talks: list[Conversation] = []
        self.errors: list[BaseException] = []
        self._script = script
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(backlog)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        if self.errors:
            raise self.errors[0]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection:
                talk = Conversation(connection)
                try:
                    self._script(talk)
                except Withdrawn:
                    pass
                except BaseException as error:  # noqa: BLE001 -- raised by close
                    self.errors.append(error)
                finally:
                    talk.forget()
            self.talks.append(talk)


@contextmanager
def serving(path: Path, script: Script, backlog: int = 1000) -> Iterator[Server]:
    server = Server(path, script, backlog)
    try:
        yield server
    finally:
        server.close()


class Installed:
    """A folder for a launcher and the socket that it asks."""

    def __init__(self, kind: str, folder: Path, build: Path | None) -> None:
        self.kind = kind
        self.folder = folder
        self.socket = folder / "server.sock"
        self._build = build
        self.path = self.write("bridge")

    def write(self, name: str, *, timeout: float = HANG, path: str | None = None) -> Path:
        """Write a launcher that asks the server at `path`."""
        socket_path = str(self.socket) if path is None else path
        file = self.folder / name
        file.write_bytes(self._content(socket_path, timeout))
        file.chmod(0o755)
        return file

    def _content(self, socket_path: str, timeout: float) -> bytes:
        if self._build is None:
            return launcher.launcher_text(socket=socket_path, timeout=timeout)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launcher, "_COMPILED", str(self._build))
            content = launcher.compiled_launcher(socket=socket_path, timeout=timeout)
        assert content is not None
        return content

    def serving(self, script: Script, backlog: int = 1000) -> AbstractContextManager[Server]:
        return serving(self.socket, script, backlog)

    def run(
        self,
        *,
        path: Path | None = None,
        command: Sequence[str | Path] = (),
        env: Mapping[str, str] = VERSION,
        stdin: bytes = b"",
        redirection: str = "",
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the launcher; `command` goes before it, `redirection` is the shell's."""
        args = [*command, path or self.path]
        if redirection:
            args = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', *args]
        return subprocess.run(args, env=env, input=stdin, capture_output=True, cwd="/", timeout=HANG, check=False)

    def start(self, *, command: Sequence[str | Path] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, self.path],
            env=VERSION,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )


def ran_directly(ran: subprocess.CompletedProcess[bytes]) -> bool:
    return (ran.returncode, ran.stdout, ran.stderr) == (0, DIRECT, b"")


def serve(talk: Conversation) -> None:
    """Answer with something for each stream, and an exit code that is nobody else's."""
    talk.accept()
    text = os.read(talk.stdin[0], 100) if talk.stdin else b"nothing"
    talk.finish(43, b"logged", b"served " + text)


def close_while_it_waits(talk: Conversation) -> None:
    talk.read_request()
    # So that the connection has ended before the launcher can answer.
    os.kill(talk.pid, signal.SIGSTOP)
    until(lambda: is_stopped(talk.pid))
    talk.connection.send(READY)
    talk.connection.shutdown(socket.SHUT_RDWR)
    os.kill(talk.pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    return _state(pid) == "T"


def is_running(pid: int) -> bool:
    """Tell whether there is such a process that has not ended, be it waited for or not."""
    try:
        return _state(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
