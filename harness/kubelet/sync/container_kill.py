"""The end of containers and of pods (kubelet's killContainer and killContainersWithSyncResult)."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from api.container import V1Container, V1Handler
from api.pod import V1Pod
from fast_stdlib import recorded_by, recorder
from harness.cri.messages import ContainerState, ContainerStatus
from harness.cri.service import NotFoundError, RuntimeService, RuntimeServiceError
from harness.kubelet.events import NORMAL, WARNING, EventRecorder
from harness.kubelet.probes.handlers import HookError, HookPlace, OnNode, run_hook

_LEAST_GRACE_S: Final = 2  # kubelet's minimumGracePeriodInSeconds
_PARALLEL: Final = 32


def grace_period(pod: V1Pod) -> int:
    """Return the seconds between a pod's stop signal and SIGKILL."""
    for period in (pod.metadata.deletion_grace_period_seconds, pod.spec.termination_grace_period_seconds):
        if period is not None:
            return period
    return _LEAST_GRACE_S


@dataclass(frozen=True)
class ContainerKiller:
    """Ends containers as their pods ask for."""

    service: RuntimeService
    events: EventRecorder
    on_node: OnNode

    def kill(
        self,
        pod: V1Pod,
        container: V1Container,
        container_id: str,
        *,
        message: str = "",
        grace_s: int | None = None,
        ip: str,
    ) -> None:
        """Run the preStop hook and stop the container; the hook's seconds are part of the grace period.

        A missing container is fine. Raises RuntimeServiceError.
        """
        told = message or f"Stopping container {container.name}"
        self.events.event(pod, NORMAL, "Killing", told, pod.spec.field_path(container))
        left = grace_period(pod) if grace_s is None else grace_s
        if (hook := container.lifecycle.pre_stop) is not None and left > 0:
            left -= self._pre_stop(hook, pod, container, container_id, left, ip)
        try:
            self.service.stop_container(container_id, max(left, _LEAST_GRACE_S))
        except NotFoundError:
            return

    def kill_all(
        self, pod: V1Pod, containers: Sequence[ContainerStatus], *, grace_s: int | None = None, ip: str
    ) -> None:
        """End the running ones of these containers at once; then the sidecars, the last one first.

        Raises an ExceptionGroup of RuntimeServiceErrors after all were tried.
        """
        running = [status for status in containers if status.state is ContainerState.RUNNING]
        sidecars = [each.name for each in pod.spec.sidecars()]
        regular = [status for status in running if status.metadata.name not in sidecars]
        errors = self._kill_each(pod, regular, grace_s, ip, parallel=True)
        by_name = {status.metadata.name: status for status in running}
        later = [by_name[name] for name in reversed(sidecars) if name in by_name]
        errors += self._kill_each(pod, later, grace_s, ip, parallel=False)
        if errors:
            raise ExceptionGroup("containers of the pod could not be stopped", errors)

    def _kill_each(
        self, pod: V1Pod, statuses: Sequence[ContainerStatus], grace_s: int | None, ip: str, *, parallel: bool
    ) -> list[RuntimeServiceError]:
        taking = recorder()

        def kill_in_thread(status: ContainerStatus) -> RuntimeServiceError | None:
            with recorded_by(None if taking is None else taking.branch(f"{pod.metadata.name}/{status.metadata.name}")):
                return kill(status)

        def kill(status: ContainerStatus) -> RuntimeServiceError | None:
            # A container that is in the manifest no more has no hook.
            container = pod.spec.container(status.metadata.name) or V1Container(name=status.metadata.name)
            try:
                self.kill(pod, container, status.id, grace_s=grace_s, ip=ip)
            except RuntimeServiceError as error:
                return error
            return None

        if parallel and len(statuses) > 1:
            with ThreadPoolExecutor(min(len(statuses), _PARALLEL)) as pool:
                answers = list(pool.map(kill_in_thread, statuses))
        else:
            answers = [kill(status) for status in statuses]
        return [error for error in answers if error is not None]

    def _pre_stop(
        self, hook: V1Handler, pod: V1Pod, container: V1Container, container_id: str, grace_s: int, ip: str
    ) -> int:
        """Run the hook for the grace period at most; return the whole seconds that it took."""
        started = time.monotonic()
        try:
            place = HookPlace(self.service, ip, self.on_node)
            run_hook(hook, pod, container, container_id, place, timeout_s=grace_s)
        except HookError:
            self.events.event(pod, WARNING, "FailedPreStopHook", "PreStopHook failed", pod.spec.field_path(container))
        return int(time.monotonic() - started)
