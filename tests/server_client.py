"""A launcher that a test can make do anything: the protocol of launch/server/protocol.py, one step at a time."""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from launch.installation import build_id
from launch.server.protocol import (
    ANSWERING,
    GO,
    MAX_WORD_BYTES,
    READY,
    Request,
    decode_exit,
    encode_environment,
    encode_request,
)
from tests.nodes import HANG

__all__ = ["Client", "client", "request_for"]


def request_for(plugin: str, environ: Mapping[str, str], **changes: Any) -> Request:
    """The request of a launcher of this very installation."""
    environment = encode_environment({os.fsencode(name): os.fsencode(value) for name, value in environ.items()})
    request = Request(
        build_id=build_id(),
        umask=0o022,
        closed=(),
        blocked=0,
        ignored=0,
        plugin=plugin,
        environment=environment,
    )
    return request._replace(**changes)


class Client:
    """One connection; its stdout is a pipe that `output` reads to the end."""

    def __init__(self, path: Path, stdin: str) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(HANG)
        try:
            self.connection.connect(str(path))
        except OSError:
            self.connection.close()
            raise
        self._output, self._stdout = os.pipe()
        self._opened = [
            os.memfd_create("stdin"),
            os.open(".", os.O_PATH | os.O_DIRECTORY),
            os.open("/proc/self/ns/net", os.O_RDONLY),
            os.open("/proc/self/ns/mnt", os.O_RDONLY),
            os.open("/", os.O_PATH | os.O_DIRECTORY),
        ]
        os.pwrite(self._opened[0], stdin.encode(), 0)

    def circumstances(self) -> list[int]:
        """The descriptors that belong to a request."""
        return self._opened[1:]

    def streams(self) -> list[int]:
        """Those that belong to `G`."""
        return [self._opened[0], self._stdout, self._stdout]

    def send(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one packet."""
        socket.send_fds(self.connection, [packet], descriptors)

    def ask(self, request: Request) -> bool:
        """Send a request; tell whether the server is ready to do it, or has ended the connection."""
        self.send(encode_request(request), self.circumstances())
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
        self.send(GO, self.streams())
        return self.end()

    def end(self) -> int:
        """Wait for the exit code. Raises HandoffError when there is none."""
        while (word := self.connection.recv(MAX_WORD_BYTES)) == ANSWERING:
            pass
        return decode_exit(word)

    def output(self) -> bytes:
        """What was written to stdout and stderr, when all have closed it."""
        if self._stdout >= 0:
            os.close(self._stdout)
            self._stdout = -1
        with open(os.dup(self._output), "rb") as pipe:  # noqa: PTH123 -- no path
            return pipe.read()

    def close(self) -> None:
        """End the connection."""
        self.connection.close()
        for fd in (*self._opened, self._output, self._stdout):
            if fd >= 0:
                os.close(fd)


@contextmanager
def client(path: Path, stdin: str = "{}") -> Iterator[Client]:
    """Connect for as long as the block lasts."""
    with ExitStack() as stack:
        connected = Client(path, stdin)
        stack.callback(connected.close)
        yield connected
