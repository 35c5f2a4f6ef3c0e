"""One execution of a probe (kubelet's prober/prober.go)."""

from typing import Final, NamedTuple

from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.handlers import HandlerError, OnNode, Response, connect, http_get
from harness.kubelet.probe_results import ProbeResult
from harness.kubelet.v1_container import V1Container, V1Probe

_AGENT: Final = "kube-probe/1.36"
_OUTPUT: Final = 10 * 1024
_SUCCESS: Final = range(200, 400)
_REDIRECTED: Final = range(300, 400)


class Outcome(NamedTuple):
    """The result of an execution; `error` says that it could not be made, and nothing is known."""

    result: ProbeResult
    output: str
    error: bool = False


def probe_once(
    probe: V1Probe, container: V1Container, container_id: str, ip: str, *, service: RuntimeService, on_node: OnNode
) -> Outcome:
    """Execute a probe once, within its time limit."""
    timeout = probe.timeout_seconds or 1
    try:
        if probe.exec is not None:
            return _exec(probe.exec.command, container_id, timeout, service)
        if probe.http_get is not None:
            return _judged(http_get(probe.http_get, container, ip, timeout_s=timeout, agent=_AGENT, on_node=on_node))
        if probe.tcp_socket is not None:
            connect(probe.tcp_socket, container, ip, timeout_s=timeout, on_node=on_node)
    except (TimeoutError, HandlerError) as error:
        late = f": timed out after {timeout}s" if isinstance(error, TimeoutError) else ""
        return Outcome(ProbeResult.FAILURE, f"{error}{late}")
    return Outcome(ProbeResult.SUCCESS, "")


def _judged(response: Response) -> Outcome:
    if response.status not in _SUCCESS:
        return Outcome(ProbeResult.FAILURE, f"HTTP probe failed with statuscode: {response.status}")
    if response.status in _REDIRECTED:
        return Outcome(ProbeResult.SUCCESS, f"Probe terminated redirects, Response body: {response.body}")
    return Outcome(ProbeResult.SUCCESS, response.body)


def _exec(command: list[str], container_id: str, timeout: int, service: RuntimeService) -> Outcome:
    try:
        result = service.exec_sync(container_id, command, timeout)
    except TimeoutError:
        return Outcome(ProbeResult.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {timeout}s')
    except RuntimeServiceError as error:
        return Outcome(ProbeResult.UNKNOWN, str(error), error=True)
    output = (result.stdout + result.stderr)[:_OUTPUT]
    return Outcome(ProbeResult.FAILURE if result.exit_code else ProbeResult.SUCCESS, output)
