"""Servers that a test writes the answers of, and clients of them."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, Protocol

import pytest
import trustme

from kube.client import Client
from kube.config import Material
from tests.api_server import Answer, ApiServer


class Serve(Protocol):
    """Start a server, which gives its answers in turn."""

    def __call__(self, *answers: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> ApiServer: ...


class ClientOf(Protocol):
    """Make a client of a server; it does not wait between attempts."""

    def __call__(self, server: ApiServer, **options: Any) -> Client: ...


class Pauses(list[float]):
    """Notes the pauses that a client wants, and takes none."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(ApiServer(*given, **options).running())


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def client_of(pauses: Pauses) -> Iterator[ClientOf]:
    with ExitStack() as stack:
        yield lambda server, **options: stack.enter_context(
            closing(Client(server.config, **({"sleep": pauses, "timeout": 5.0} | options)))
        )


class Authority:
    """A certificate authority, and servers with its certificates."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.pem = Material(self.authority.cert_pem.bytes())

    def context(self, name: str, *, asks: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(name).configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            self.authority.configure_trust(context)
        return context


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()
