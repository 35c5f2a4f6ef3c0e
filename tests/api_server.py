"""A server that answers as an API server does or should not: a test writes each answer, down to single bytes."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import parse_headers
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from kube.config import ClusterConfig, Server


class Request(NamedTuple):
    """One that a client has sent, and the number of its connection, from 0."""

    method: str
    path: str
    query: dict[str, str]
    headers: Message
    body: bytes
    connection: int

    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """A request, and the means to answer it or not."""

    def __init__(self, request: Request, connected: socket.socket, ended: threading.Event) -> None:
        self.request = request
        self._connected = connected
        self._ended = ended
        self.keeps_open = True

    def send(self, content: bytes) -> None:
        """Send bytes, which are no answer of their own."""
        self._connected.sendall(content)

    def answer(self, content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send JSON, or bytes as they are."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
        lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
        self.send("\r\n".join([*lines, "", ""]).encode() + body)
        if (headers or {}).get("Connection") == "close":
            self.close()

    def stream(self) -> None:
        """Begin an answer in chunks."""
        self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, content: bytes) -> None:
        """Send a chunk."""
        self.send(b"%x\r\n%s\r\n" % (len(content), content))

    def event(self, kind: str, content: object) -> None:
        """Send an event of a watch as one chunk."""
        self.chunk(json.dumps({"type": kind, "object": content}).encode() + b"\n")

    def end(self) -> None:
        """End the chunks in order."""
        self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """Close the connection after this answer, whatever has been sent."""
        self.keeps_open = False

    def hang(self) -> None:
        """Send nothing more until the test ends."""
        self._ended.wait(60)
        self.close()


Answer: TypeAlias = Callable[[Exchange], object]


class ApiServer:
    """It listens on the loopback interface. Requests take the answers in turn; after the last one it hangs."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)
        self._tls = tls
        self._ended = threading.Event()
        self._lock = threading.Lock()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self._connections: list[socket.socket] = []
        self.server = Server("https" if tls else "http", host, self._listener.getsockname()[1])
        self.config = ClusterConfig(self.server)

    def then(self, *answers: Answer) -> None:
        """Give further answers."""
        with self._lock:
            self._answers += answers

    @contextmanager
    def running(self) -> Iterator["ApiServer"]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._ended.set()
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for connected in self._connections:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connected, _ = self._listener.accept()
                self._connections.append(connected)
                number = len(self._connections) - 1
                threading.Thread(target=self._serve, args=(connected, number), daemon=True).start()

    def _serve(self, connected: socket.socket, number: int) -> None:
        with suppress(OSError), connected:
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
            with connected, connected.makefile("rb") as file:
                while line := file.readline():
                    method, target, _ = line.decode().split()
                    headers = parse_headers(file)
                    body = file.read(int(headers.get("Content-Length") or 0))
                    parts = urlsplit(target)
                    request = Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body, number)
                    with self._lock:
                        self.requests.append(request)
                        answer = self._answers.pop(0) if self._answers else Exchange.hang
                    exchange = Exchange(request, connected, self._ended)
                    answer(exchange)
                    if not exchange.keeps_open:
                        return


def status(code: int, reason: str = "", message: str = "no", **details: object) -> dict[str, object]:
    """Return the API's object for an error."""
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


def fails(code: int, reason: str = "", message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer that is an error."""
    return lambda exchange: exchange.answer(status(code, reason, message), code, headers)


def answers(content: object) -> Answer:
    """Return a good answer."""
    return lambda exchange: exchange.answer(content)


def breaks(exchange: Exchange) -> None:
    """End the connection without an answer."""
    exchange.close()


def node(name: str, version: int | str = 1, **spec: object) -> dict[str, Any]:
    """Return a Node."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}


def node_list(version: int | str, *nodes: object, more: str = "") -> dict[str, Any]:
    """Return a page of Nodes; `more` is the token that leads to the next one."""
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": list(nodes)}
