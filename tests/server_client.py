"""A launcher that a test can make do anything: the protocol of launch/server/protocol.py, one step at a time."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from launch.installation import build_id
from launch.server.protocol import GO, MAX_WORD_BYTES, PIECE_BYTES, READY, HandoffError, Request, encode_request
from tests.nodes import HANG

__all__ = ["Client", "client", "encode_environment", "request_for"]


@cache
def _own_build_id() -> bytes:
    return build_id()


def request_for(plugin: str, environ: Mapping[str, str], **changes: Any) -> Request:
    """The request of a launcher of this very installation."""
    request = Request(build_id=_own_build_id(), umask=0o022, plugin=plugin, environment=encode_environment(environ))
    return request._replace(**changes)


def encode_environment(environ: Mapping[str, str]) -> bytes:
    """The block that execve(2) would be given."""
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ.items())


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
        self._opened = [
            reader,
            os.open(".", os.O_PATH | os.O_DIRECTORY),
            os.open("/proc/self/ns/net", os.O_RDONLY),
            os.open("/proc/self/ns/mnt", os.O_RDONLY),
        ]
        if stdin is not None:
            self.write_stdin(stdin)

    def files(self) -> list[int]:
        """The descriptors that belong to a request."""
        return self._opened[1:]

    def stdin(self) -> list[int]:
        """The one that belongs to `G`."""
        return self._opened[:1]

    def write_stdin(self, text: str) -> None:
        """Write all there is to be on stdin, and end it."""
        with open(self._writer, "w") as writer:  # noqa: PTH123 -- no path
            self._writer = -1
            writer.write(text)

    def send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one packet."""
        socket.send_fds(self.connection, [packet], descriptors)

    def ask(self, request: Request) -> bool:
        """Send a request; tell whether the server is ready to do it, or has ended the connection."""
        self.send(encode_request(request), self.files())
        return self.is_ready()

    def is_ready(self) -> bool:
        """Wait for the server's word."""
        try:
            word = self.connection.recv(MAX_WORD_BYTES)
        except ConnectionResetError:
            word = b""
        assert word in {READY, b""}
        return word == READY

    def go(self) -> int:
        """Have it done; return the exit code."""
        self.send(GO, self.stdin())
        return self.end()

    def begin(self, plugin: str = "noop", environ: Mapping[str, str] | None = None, **changes: Any) -> bool:
        """Have a call begun that waits for stdin, STATUS by default; tell whether the server does it."""
        if not self.ask(request_for(plugin, environ or {"CNI_COMMAND": "STATUS"}, **changes)):
            return False
        self.send(GO, self.stdin())
        return True

    def finish(self, stdin: str = '{"cniVersion": "1.1.0", "name": "n", "type": "noop"}') -> int:
        """Give the call its stdin; return the exit code."""
        self.write_stdin(stdin)
        return self.end()

    def end(self) -> int:
        """Wait for the answer; return the exit code. Raises HandoffError when there is none."""
        while True:
            packet = self.connection.recv(2 * PIECE_BYTES)
            kind, text = packet[:1], packet[1:]
            if kind == b"E":
                self.stderr += text
            elif kind == b"O":
                self.stdout += text
            elif kind == b"X":
                code, size = (int.from_bytes(text[at : at + 4], sys.byteorder, signed=True) for at in (0, 4))
                self.stderr += text[8 : 8 + size]
                self.stdout += text[8 + size :]
                return code
            else:
                raise HandoffError(f"no answer: {packet!r}")

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
