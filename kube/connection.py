"""One connection to an API server: HTTP/1.1, with TLS, and with limits on every wait.

A peer that vanishes is noticed by the kernel (keepalive and TCP_USER_TIMEOUT), also while a watch is silent. A server
that is there and says nothing is noticed by the time limit of each request.
"""

import os
import select
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import time
from typing import Final

from kube.config import ClusterConfig, Material
from kube.errors import LONGEST_WAIT, ApiError, ConfigError, ConnectionLostError

_CONNECT: Final = 10.0
"""Seconds for TCP's handshake and that of TLS."""
_OPTIONS: Final = {
    socket.TCP_NODELAY: 1,
    socket.TCP_KEEPIDLE: 15,  # seconds
    socket.TCP_KEEPINTVL: 5,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 30_000,  # milliseconds
}


class Connection:
    """A connection that is made when a request needs one, and again after it was lost.

    It serves one thread; `interrupt` may come from another one. `timeout` is in seconds, for each wait for the server.
    """

    def __init__(self, config: ClusterConfig, timeout: float) -> None:
        self._config = config
        self._timeout = timeout
        self._http: HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._response: HTTPResponse | None = None
        self._interrupted = False

    @property
    def is_interrupted(self) -> bool:
        """Whether `interrupt` was called: no request can succeed any more."""
        return self._interrupted

    def request(self, method: str, target: str, *, body: bytes | None = None, content_type: str = "") -> HTTPResponse:
        """Send a request and return the answer's head; its body is to be read within `translated_errors`.

        Raises ConnectionLostError, ConfigError; an answer that is an error is returned as any other one.
        """
        headers = self._headers(content_type)
        with self.translated_errors():
            http = self._opened()
            assert self._socket is not None  # noqa: S101 -- `_opened` made it
            self._socket.settimeout(self._timeout)
            http.request(method, self._config.server.prefix + target, body=body, headers=headers)
            self._response = http.getresponse()
            return self._response

    def wait_longer(self, seconds: float) -> None:
        """Give the body of the answer that many seconds more than `timeout`: a watch is silent for long."""
        if self._socket is not None:
            self._socket.settimeout(self._timeout + seconds)

    def close(self) -> None:
        """Close it. The next request opens a new one."""
        http, self._http, self._socket, self._response = self._http, None, None, None
        if http is not None:
            http.close()

    def interrupt(self) -> None:
        """End the request of another thread, which gets ConnectionLostError, and each one after it."""
        self._interrupted = True
        if (connected := self._socket) is not None:
            with suppress(OSError):  # closed meanwhile
                # Not the method of SSLSocket, which forgets its TLS state under the other thread's hands.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Turn errors of sockets, TLS and HTTP into ConnectionLostError, after closing the connection."""
        server = self._config.server
        try:
            yield
        except TimeoutError:
            self.close()
            raise ConnectionLostError(f"{server}: no answer in time") from None
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ConnectionLostError(f"{server}: the server's certificate: {error.verify_message}") from None
        except ssl.SSLError as error:
            self.close()
            raise ConnectionLostError(f"{server}: TLS: {error.reason or error}") from None
        except HTTPException as error:
            self.close()
            raise ConnectionLostError(f"{server}: {str(error) or type(error).__name__}") from None
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"{server}: {error.strerror or error}") from None
        except ValueError:  # a file that `interrupt` or a time limit has closed while it was read
            self.close()
            raise ConnectionLostError(f"{server}: the connection was closed") from None

    def _opened(self) -> HTTPConnection:
        if self._interrupted:
            raise ConnectionAbortedError("the request was interrupted")
        if self._response is not None and not self._response.isclosed():
            self.close()  # the rest of the answer before would precede the next one
        # `http` has no socket if the answer before said `Connection: close`.
        if self._http is not None and (self._http.sock is None or _is_readable(self._http.sock)):
            self.close()
        if self._http is None:
            connected = self._connect()
            self._socket = connected
            self._http = HTTPConnection(self._config.server.host, self._config.server.port)
            self._http.auto_open = 0  # it would open a connection without TLS
            self._http.sock = connected
            if self._interrupted:
                raise ConnectionAbortedError("the request was interrupted")
        return self._http

    def _connect(self) -> socket.socket:
        config = self._config
        # The context is made for each connection: certificates and keys in files are replaced while this process runs.
        context = _tls_context(config) if config.server.scheme == "https" else None
        connected = socket.create_connection((config.server.host, config.server.port), _CONNECT)
        try:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _OPTIONS.items():
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
            if context is None:
                return connected
            return context.wrap_socket(connected, server_hostname=config.server_name or config.server.host)
        except BaseException:
            connected.close()
            raise

    def _headers(self, content_type: str) -> dict[str, str]:
        config = self._config
        headers = {"Host": config.server.authority, "Accept": "application/json", "User-Agent": "cni-harness"}
        if content_type:
            headers["Content-Type"] = content_type
        if config.token is not None:
            headers["Authorization"] = f"Bearer {_token(config.token)}"
        elif config.basic is not None:
            headers["Authorization"] = f"Basic {b64encode(config.basic.read()).decode()}"
        return headers


def _is_readable(connected: socket.socket) -> bool:
    """Tell whether there is something to read; on an idle connection this is the end that the server has sent."""
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))


def _token(material: Material) -> str:
    """Return a token. Raises ConfigError if it cannot stand in a header."""
    token = material.read().strip()
    if not token or not token.isascii() or any(byte <= ord(" ") for byte in token):
        raise ConfigError(f"{material.path or 'the token'}: not a token: visible ASCII characters are expected")
    return token.decode()


def _tls_context(config: ClusterConfig) -> ssl.SSLContext:
    """Return what checks the server's certificate, and shows that of the client. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=config.ca.read().decode())
        except (ssl.SSLError, ValueError):
            raise ConfigError(f"{config.ca.path or 'certificate-authority-data'}: no certificates in PEM") from None
    if config.certificate is not None:
        _load_certificate(context, config.certificate, config.key)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Material, key: Material | None) -> None:
    """Load the client's certificate and key; OpenSSL reads them from a file, which is in memory here."""
    content = certificate.read() + b"\n" + (key.read() if key is not None else b"")
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # or OpenSSL asks on the terminal
    except (ssl.SSLError, OSError):
        origin = certificate.path or "client-certificate-data"
        raise ConfigError(f"{origin}: not a certificate in PEM with its key") from None
    finally:
        os.close(descriptor)


def retry_after(headers: Message) -> float | None:
    """Return the seconds of the header Retry-After, which has a number or a date; None if it has neither."""
    value = (headers.get("Retry-After") or "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_WAIT)
    try:
        return min(max(parsedate_to_datetime(value).timestamp() - time(), 0.0), LONGEST_WAIT)
    except (ValueError, TypeError, OverflowError):
        return None


def error_of(response: HTTPResponse, body: bytes) -> ApiError:
    """Return the error that an answer is."""
    import json

    try:
        status: object = json.loads(body)
    except ValueError:
        status = body.decode(errors="replace") or response.reason
    return ApiError.of(status, response.status, retry_after(response.headers))
