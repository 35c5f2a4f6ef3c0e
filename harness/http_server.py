"""A small HTTP server for GET requests: on a Unix socket for root alone, or at an address."""

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_MOST: Final = 16
"""Connections at a time; one more is closed at once."""
_SECONDS: Final = 10.0
"""How long a client may keep the server waiting."""


class Answer(NamedTuple):
    """The answer to a request."""

    text: str
    type: str = _TEXT
    status: int = 200


Answers = Callable[[str], Answer | None]
"""Returns the answer to a GET of a path; None if there is no such path. It is called in a thread of its own."""


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, family: int, address: Any, answers: Answers) -> None:  # noqa: ANN401 -- of the family
        self.address_family = family
        self.answers = answers
        self._slots = threading.Semaphore(_MOST)
        super().__init__(address, _Handler)
        self._thread = threading.Thread(target=self.serve_forever, name="http-server", daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 -- the base class's
        """Start a thread for a request, unless there are too many."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 -- the base class's
        """Answer one request; a client that sends it byte by byte has no more time than others."""
        end = threading.Timer(_SECONDS, _hang_up, [request])
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._slots.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:  # noqa: ANN401 -- the base class's
        """Say nothing: a client has gone, or has kept the server waiting."""

    def close(self) -> None:
        """End the thread."""
        self.shutdown()
        self._thread.join()
        self.server_close()


class UnixHttpServer:
    """Serves at a path until `close`."""

    def __init__(self, path: Path, answers: Answers) -> None:
        """Listen at `path`, for root alone; a socket that was left there is replaced. Raises OSError."""
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        before = os.umask(0o177)
        try:
            with _named_briefly(path) as short:
                self._server = _Server(socket.AF_UNIX, short, answers)
        finally:
            os.umask(before)

    def close(self) -> None:
        """End the server and remove the socket."""
        self._server.close()
        self.path.unlink(missing_ok=True)


class AddressHttpServer:
    """Serves at an address until `close`."""

    def __init__(self, address: str, answers: Answers) -> None:
        """Listen at `HOST:PORT`, `[IPV6]:PORT` or `:PORT`. Raises ValueError, OverflowError, OSError."""
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "::"
        family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6  # noqa: PLR2004 -- the version
        self._server = _Server(family, (host, int(port)), answers)

    def close(self) -> None:
        """End the server."""
        self._server.close()


def get(path: Path, what: str) -> str:
    """Return the text that the server at a Unix socket answers to a GET. Raises OSError."""
    with closing(socket.socket(socket.AF_UNIX)) as connection, _named_briefly(path) as short:
        connection.settimeout(_SECONDS)
        connection.connect(short)
        connection.sendall(f"GET {what} HTTP/1.0\r\n\r\n".encode())
        with connection.makefile("rb") as reader:
            _, _, body = reader.read().partition(b"\r\n\r\n")
    return body.decode()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _named_briefly(path: Path) -> Iterator[str]:
    """Name a socket by its folder's descriptor: a path of a socket has 107 bytes at most (unix(7))."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer one request."""
        answer = self.server.answers(self.path) or Answer("404 page not found\n", status=404)
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing: the log is about pods."""

    def address_string(self) -> str:
        """Return the client, which has no address on a Unix socket."""
        return "client"
