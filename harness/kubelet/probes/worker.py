"""The worker of one probe of one container: when it probes, and what counts (kubelet's prober/worker.go, prober.go)."""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from api.container import V1Container, V1Probe
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.probes.handlers import HandlerError, OnNode, Response, connect, http_get
from harness.kubelet.probes.results import ProbeResult, ProbeResults

STARTUP: Final = "Startup"
READINESS: Final = "Readiness"
LIVENESS: Final = "Liveness"

_INITIAL: Final = {
    STARTUP: ProbeResult.UNKNOWN,
    READINESS: ProbeResult.FAILURE,
    LIVENESS: ProbeResult.SUCCESS,
}
_TRIES: Final = 3  # kubelet's maxProbeRetries

_AGENT: Final = "kube-probe/1.36"
_OUTPUT: Final = 10 * 1024  # bytes; maxReadLength of Kubernetes' probe/exec
_SUCCESS: Final = range(200, 400)
_REDIRECTED: Final = range(300, 400)


class ProbeOutcome(NamedTuple):
    """The result of an execution; `error` says that it could not be made, and nothing is known."""

    result: ProbeResult
    output: str
    error: bool = False


class ContainerView(NamedTuple):
    """A container as its worker sees it; `started` is that of its status. Times are seconds since 1970."""

    container_id: str
    running: bool
    started: bool
    started_at: float
    restarts: bool
    """Whether it would be started again after its end."""


class ProbedContainer(Protocol):
    """A container of a pod, for one of its probes."""

    uid: str

    def view(self) -> ContainerView | None:
        """Return its state; None if the runtime does not have it."""

    def execute(self, container_id: str) -> ProbeOutcome:
        """Execute the probe once."""

    def unhealthy(self, message: str) -> None:
        """Record the event Unhealthy."""


class ProbeWorker(threading.Thread):
    """Probes each period until `stop`, or until the container ends for good."""

    def __init__(
        self,
        kind: str,
        probe: V1Probe,
        container: ProbedContainer,
        results: ProbeResults,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name=f"probe-{kind.lower()}", daemon=True)
        self._kind = kind
        self._probe = probe
        self._container = container
        self._results = results
        self._clock = clock
        self._stopped = threading.Event()
        self._container_id = ""
        self._on_hold = False
        self._last: ProbeResult | None = None
        self._run = 0

    def stop(self) -> None:
        """End the thread, and forget the result."""
        self._stopped.set()

    def run(self) -> None:
        """Probe each period."""
        period = self._probe.period_seconds or 10
        try:
            while not self._stopped.is_set() and self.probe():
                self._stopped.wait(period)
        finally:
            if self._container_id:
                self._results.remove(self._container_id)

    def probe(self) -> bool:
        """Probe once if it is time; False if there will be no more probes (kubelet's doProbe)."""
        view = self._container.view()
        if view is None or not view.container_id:
            return True
        if view.container_id != self._container_id:
            self._renew(view.container_id)
        if self._on_hold:
            return True
        if not view.running:
            self._results.set(self._container_id, self._container.uid, ProbeResult.FAILURE)
            return view.restarts
        if self._clock() - view.started_at < self._probe.initial_delay_seconds:
            return True
        if (self._kind == STARTUP) == view.started:
            return True
        self._count(self._attempt())
        return True

    def _renew(self, container_id: str) -> None:
        if self._container_id:
            self._results.remove(self._container_id)
        self._container_id = container_id
        self._results.set(container_id, self._container.uid, _INITIAL[self._kind])
        self._on_hold = False
        self._last, self._run = None, 0

    def _attempt(self) -> ProbeOutcome:
        outcome = self._container.execute(self._container_id)
        for _ in range(_TRIES - 1):
            if not outcome.error:
                break
            outcome = self._container.execute(self._container_id)
        if self._stopped.is_set():  # the pod may be gone by now, with the folder of its events
            return outcome
        if outcome.error:
            self._container.unhealthy(f"{self._kind} probe errored and resulted in unknown state: {outcome.output}")
        elif outcome.result is ProbeResult.FAILURE:
            self._container.unhealthy(f"{self._kind} probe failed: {outcome.output}")
        return outcome

    def _count(self, outcome: ProbeOutcome) -> None:
        """Take over a result that came as often in sequence as its threshold asks for."""
        if outcome.error or self._stopped.is_set():
            return
        self._run = self._run + 1 if outcome.result is self._last else 1
        self._last = outcome.result
        failed = outcome.result is ProbeResult.FAILURE
        threshold = (self._probe.failure_threshold or 3) if failed else (self._probe.success_threshold or 1)
        if self._run < threshold:
            return
        if (self._kind == LIVENESS and failed) or self._kind == STARTUP:
            # The container is restarted, or needs no such probe any more.
            self._on_hold = True
            self._run = 0
        self._results.set(self._container_id, self._container.uid, outcome.result)


def probe_once(
    probe: V1Probe, container: V1Container, container_id: str, ip: str, *, service: RuntimeService, on_node: OnNode
) -> ProbeOutcome:
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
        return ProbeOutcome(ProbeResult.FAILURE, f"{error}{late}")
    return ProbeOutcome(ProbeResult.SUCCESS, "")


def _judged(response: Response) -> ProbeOutcome:
    if response.status not in _SUCCESS:
        return ProbeOutcome(ProbeResult.FAILURE, f"HTTP probe failed with statuscode: {response.status}")
    if response.status in _REDIRECTED:
        return ProbeOutcome(ProbeResult.SUCCESS, f"Probe terminated redirects, Response body: {response.body}")
    return ProbeOutcome(ProbeResult.SUCCESS, response.body)


def _exec(command: list[str], container_id: str, timeout: int, service: RuntimeService) -> ProbeOutcome:
    try:
        result = service.exec_sync(container_id, command, timeout)
    except TimeoutError:
        return ProbeOutcome(ProbeResult.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {timeout}s')
    except RuntimeServiceError as error:
        return ProbeOutcome(ProbeResult.UNKNOWN, str(error), error=True)
    output = (result.stdout + result.stderr)[:_OUTPUT]
    return ProbeOutcome(ProbeResult.FAILURE if result.exit_code else ProbeResult.SUCCESS, output)
