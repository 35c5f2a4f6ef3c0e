"""The API server's rules for probes and hooks, in its order and words (validateHandler in core/validation)."""

from collections.abc import Iterator

from api.container import V1Container, V1Handler, V1HTTPGetAction, V1Probe, V1SleepAction
from api.errors import FieldError, invalid
from api.names import header_flaws
from api.object import V1Object


def validate_hooks(container: V1Container, grace_period: int | None, path: str) -> Iterator[FieldError]:
    """Judge the hooks of a container; `grace_period`, in seconds, is the pod's."""
    for key, hook in (("postStart", container.lifecycle.post_start), ("preStop", container.lifecycle.pre_stop)):
        if hook is not None:
            yield from _of_handler(hook, grace_period, f"{path}.lifecycle.{key}")


def validate_probes(container: V1Container, path: str) -> Iterator[FieldError]:
    """Judge the probes of a container, with defaults filled in."""
    if container.liveness_probe is not None:
        yield from _of_restarting_probe(container.liveness_probe, f"{path}.livenessProbe")
    if container.readiness_probe is not None:
        yield from _of_probe(container.readiness_probe, f"{path}.readinessProbe")
        if (seconds := container.readiness_probe.termination_grace_period_seconds) is not None:
            place = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            yield invalid(place, seconds, "must not be set for readinessProbes")
    if container.startup_probe is not None:
        yield from _of_restarting_probe(container.startup_probe, f"{path}.startupProbe")


def _of_probe(probe: V1Probe, path: str) -> Iterator[FieldError]:
    yield from _of_handler(probe, None, path)
    yield from probe.flaws(path)


def _of_restarting_probe(probe: V1Probe, path: str) -> Iterator[FieldError]:
    """Judge a probe whose failure restarts the container: one success is enough for it."""
    yield from _of_probe(probe, path)
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")


def _of_handler(handler: V1Handler, grace_period: int | None, path: str) -> Iterator[FieldError]:
    def of_sleep(action: V1SleepAction, place: str) -> Iterator[FieldError]:
        if grace_period is not None and not 0 <= action.seconds <= grace_period:
            limit = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
            yield invalid(place, action.seconds, limit)

    only = V1Object.flaws
    yield from handler.union_flaws(
        path, "handler type", exec=only, http_get=_of_http_get, tcp_socket=only, sleep=of_sleep
    )


def _of_http_get(action: V1HTTPGetAction, path: str) -> Iterator[FieldError]:
    yield from action.flaws(path)
    for header in action.http_headers:
        for flaw in header_flaws(header.name):
            yield invalid(f"{path}.httpHeaders", header.name, flaw)
