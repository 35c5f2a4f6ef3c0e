"""A launcher that a test can make do anything: the steps of launch/client.py, one at a time."""

import os
import select
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from launch.client import decode_answer, open_descriptors, send, take
from launch.installation import build_id
from launch.server.protocol import GO, PIECE_BYTES, READY, LauncherRequest
from tests.nodes import HANG


@cache
def _own_build_id() -> bytes:
    return build_id()


def request_for(plugin: str, environ: Mapping[str, str], **changes: Any) -> LauncherRequest:
    """The request of a launcher of this very installation."""
    request = LauncherRequest(
        build_id=_own_build_id(), umask=0o022, plugin=plugin, environment=encode_environment(environ)
    )
    return request._replace(**changes)


def encode_environment(environ: Mapping[str, str]) -> bytes:
    """The block that execve(2) would be given."""
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ.items())


def encode_request(request: LauncherRequest) -> bytes:
    """The packet of a request."""
    header = b"CNIH\x04\0\0\0" + request.build_id + request.umask.to_bytes(4, sys.byteorder)
    return header + os.fsencode(request.plugin) + b"\0" + request.environment


class Client:
    """One connection, and the answer as far as it has come."""

    def __init__(self, path: Path, stdin: str | None) -> None:
        _own_build_id()  # which takes longer than a launcher may be silent
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(HANG)
        try:
            self.connection.connect(str(path))
        except OSError:
            self.connection.close()
            raise
        self.stdout = self.stderr = b""
        reader, self._writer = os.pipe()
        self._opened: list[int] = []
        open_descriptors(self._opened)
        self.token = self._opened[-1]
        self._opened.append(reader)
        if stdin is not None:
            self.write_stdin(stdin)

    def files(self) -> list[int]:
        """The descriptors that belong to a request, stdin the last of them."""
        return self._opened

    def write_stdin(self, text: str) -> None:
        """Write all there is to be on stdin, and end it."""
        with open(self._writer, "w") as writer:  # noqa: PTH123 -- no path
            self._writer = -1
            writer.write(text)

    def send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one packet."""
        send(self.connection, [packet], list(descriptors))

    def ask(self, request: LauncherRequest) -> None:
        """Send a request."""
        self.send(encode_request(request), self.files())

    def take(self) -> bool:
        """Take the token; tell whether it was there, which means that no worker has the call."""
        return take(self.token)

    def is_refused(self) -> bool:
        """Wait for the end; tell whether the server has left the call to the launcher."""
        with suppress(ConnectionResetError):
            assert self.connection.recv(2 * PIECE_BYTES) == b""
        return self.take()

    def call(self, request: LauncherRequest) -> int:
        """Have it done; return the exit code."""
        self.ask(request)
        return self.end()

    def begin(self, plugin: str = "noop", environ: Mapping[str, str] | None = None, **changes: Any) -> bool:
        """Have a call begun that waits for stdin, STATUS by default; tell whether a worker does it."""
        self.ask(request_for(plugin, environ or {"CNI_COMMAND": "STATUS"}, **changes))
        return self.is_begun()

    def is_begun(self) -> bool:
        """Wait for a worker to take the token; False if the server leaves the call to the launcher."""
        while select.select([self.token], [], [], 0)[0]:
            if not select.select([self.connection], [], [], 0.01)[0]:
                continue
            if self.connection.recv(len(READY), socket.MSG_PEEK) == READY:
                self.connection.recv(len(READY))
                self.send(GO)
            elif self.take():
                return False
        return True

    def finish(self, stdin: str = '{"cniVersion": "1.1.0", "name": "n", "type": "noop"}') -> int:
        """Give the call its stdin; return the exit code."""
        self.write_stdin(stdin)
        return self.end()

    def end(self) -> int:
        """Wait for the answer; return the exit code. Raises ValueError if there is none."""
        while True:
            packet = self.connection.recv(2 * PIECE_BYTES)
            if packet == READY:
                self.send(GO)
                continue
            stderr, stdout, code = decode_answer(packet)
            self.stderr += stderr
            self.stdout += stdout
            if code is not None:
                return code

    def close(self) -> None:
        """End the connection."""
        self.connection.close()
        for fd in (*self._opened, self._writer):
            if fd >= 0:
                os.close(fd)


@contextmanager
def client(path: Path, stdin: str | None = "{}") -> Iterator[Client]:
    """Connect for as long as the block lasts; without `stdin` that is left open."""
    with ExitStack() as stack:
        connected = Client(path, stdin)
        stack.callback(connected.close)
        yield connected
