"""The actions of hooks and probes: a request or a connection from the node to a pod, and the hooks of a container.

Requests and connections are made in the node's network namespace, as by a kubelet on its node (Kubernetes' probe/http,
probe/tcp). Hooks are postStart and preStop (lifecycle/handlers.go).
"""

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from api.container import V1Container, V1Handler, V1HTTPGetAction, V1TCPSocketAction
from api.formats import format_strings
from api.pod import V1Pod
from harness.cri.service import RuntimeService, RuntimeServiceError

T = TypeVar("T")

_BODY_BYTES: Final = 10 * 1024  # maxRespBodyLength of Kubernetes' probe/http
_REDIRECTS: Final = 10  # as Go's HTTP client
_REDIRECTED: Final = range(300, 400)

_HTTP_TIMEOUT_S: Final = 60.0
_AGENT: Final = "kube-lifecycle/1.36"


class OnNode(Protocol):
    """Calls a function in a thread that is in the node's network namespace; returns its result, raises its error."""

    def __call__(self, function: Callable[[], T]) -> T:
        """Call it."""


class HandlerError(Exception):
    """The action could not be done; the text is for people."""


class Response(NamedTuple):
    """An answer; `body` has at most 10 KiB. `location` is a redirection to another host, which is not followed."""

    status: int
    body: str
    location: str = ""


def container_port(container: V1Container, port: int | str) -> int:
    """Return the number of a port, which may be a name of the container's ports. Raises HandlerError."""
    if isinstance(port, int):
        return port
    for each in container.ports:
        if each.name == port:
            return each.container_port
    if port.isdecimal():
        return int(port)
    raise HandlerError(f"couldn't find port: {port} in container {container.name}")


def http_get(
    action: V1HTTPGetAction, container: V1Container, ip: str, *, timeout_s: float, agent: str, on_node: OnNode
) -> Response:
    """Send GET and return the answer; redirections on one host are followed, certificates are not verified.

    Raises HandlerError, TimeoutError.
    """
    host = action.host or ip
    port = container_port(container, action.port)
    secure = action.scheme.upper() == "HTTPS"
    headers = {"User-Agent": agent, "Accept": "*/*", "Connection": "close"}
    headers |= {each.name: each.value for each in action.http_headers}
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    url = f"{'https' if secure else 'http'}://{_bracketed(host)}:{port}"

    def request() -> Response:
        target = path
        for _ in range(_REDIRECTS):
            response = _request(host, port, target, headers, secure=secure, timeout_s=timeout_s)
            location = response.location
            if response.status not in _REDIRECTED or not location.startswith(("/", url)):
                return response
            target = location.removeprefix(url) or "/"
        raise HandlerError(f'Get "{url}{path}": stopped after {_REDIRECTS} redirects')

    try:
        return on_node(request)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a header or host of no valid form
        raise HandlerError(f'Get "{url}{path}": {_said(error, host, port)}') from error


def connect(action: V1TCPSocketAction, container: V1Container, ip: str, *, timeout_s: float, on_node: OnNode) -> None:
    """Open a connection and close it. Raises HandlerError, TimeoutError."""
    host, port = action.host or ip, container_port(container, action.port)

    def dial() -> None:
        socket.create_connection((host, port), timeout=timeout_s).close()

    try:
        on_node(dial)
    except TimeoutError:
        raise
    except OSError as error:
        raise HandlerError(_said(error, host, port)) from error


def _request(host: str, port: int, path: str, headers: dict[str, str], *, secure: bool, timeout_s: float) -> Response:
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl._create_unverified_context())  # noqa: S323, SLF001 - kubelet verifies no pod's certificate
        if secure
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(_BODY_BYTES).decode(errors="replace")
        return Response(answer.status, body, answer.getheader("Location", ""))
    finally:
        connection.close()


def _said(error: Exception, host: str, port: int) -> str:
    reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return f"dial tcp {_bracketed(host)}:{port}: connect: {reason}" if isinstance(error, OSError) else reason


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class HookPlace(NamedTuple):
    """How hooks of a pod are run: in its containers, or by requests to its address from the node."""

    service: RuntimeService
    ip: str
    on_node: OnNode


class HookError(Exception):
    """A hook failed; the text is kubelet's."""


def run_hook(
    hook: V1Handler,
    pod: V1Pod,
    container: V1Container,
    container_id: str,
    place: HookPlace,
    *,
    timeout_s: float = 0,
) -> None:
    """Run a hook to its end; `timeout_s` seconds at most, 0 is no limit. Raises HookError."""
    whose = f'for Container "{container.name}" in Pod "{pod}" failed'
    if hook.exec is not None:
        named = f"Exec lifecycle hook ({format_strings(hook.exec.command)}) {whose}"
        try:
            result = place.service.exec_sync(container_id, hook.exec.command, timeout_s)
        except (RuntimeServiceError, TimeoutError) as error:
            raise HookError(f'{named} - error: {error}, message: ""') from error
        if result.exit_code:
            said = result.stdout + result.stderr
            raise HookError(
                f"{named} - error: command '{' '.join(hook.exec.command)}' exited with {result.exit_code}: "
                f'{result.stderr.strip()}, message: "{said.strip()}"'
            )
    elif hook.http_get is not None:
        named = f"HTTP lifecycle hook ({hook.http_get.path}) {whose}"
        try:
            # Any answer is success: kubelet looks at the transport alone.
            http_get(
                hook.http_get,
                container,
                place.ip,
                timeout_s=timeout_s or _HTTP_TIMEOUT_S,
                agent=_AGENT,
                on_node=place.on_node,
            )
        except (HandlerError, TimeoutError) as error:
            raise HookError(f'{named} - error: {error}, message: ""') from error
    elif hook.sleep is not None:
        time.sleep(min(hook.sleep.seconds, timeout_s or hook.sleep.seconds))
    else:
        raise HookError(f"Cannot run handler: invalid handler: {hook.encode()}")
