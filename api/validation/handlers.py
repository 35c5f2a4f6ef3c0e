"""The API server's rules for probes and hooks, in its order and words (validateHandler in core/validation)."""

from collections.abc import Iterator
from typing import Final

from api.container import V1Container, V1Handler, V1HTTPGetAction, V1Probe
from api.errors import FieldError, forbidden, invalid, not_supported, required
from api.names import header_flaws, port_name_flaws, port_number_flaws

_SCHEMES: Final = ("HTTP", "HTTPS")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


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
    for key, number in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if number is not None and number < 0:
            yield invalid(f"{path}.{key}", number, _NOT_NEGATIVE)
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def _of_restarting_probe(probe: V1Probe, path: str) -> Iterator[FieldError]:
    """Judge a probe whose failure restarts the container: one success is enough for it."""
    yield from _of_probe(probe, path)
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")


def _of_handler(handler: V1Handler, grace_period: int | None, path: str) -> Iterator[FieldError]:
    handlers = 0
    for key, faults in (
        ("exec", _of_exec(handler, f"{path}.exec")),
        ("httpGet", _of_http_get(handler.http_get, f"{path}.httpGet")),
        ("tcpSocket", _of_tcp_socket(handler, f"{path}.tcpSocket")),
        ("sleep", _of_sleep(handler, grace_period, f"{path}.sleep")),
    ):
        if faults is None:
            continue
        handlers += 1
        if handlers > 1:
            yield forbidden(f"{path}.{key}", "may not specify more than 1 handler type")
        else:
            yield from faults
    if not handlers:
        yield required(path, "must specify a handler type")


def _of_exec(handler: V1Handler, path: str) -> list[FieldError] | None:
    if handler.exec is None:
        return None
    return [] if handler.exec.command else [required(f"{path}.command")]


def _of_http_get(action: V1HTTPGetAction | None, path: str) -> list[FieldError] | None:
    if action is None:
        return None
    errors = [] if action.path else [required(f"{path}.path")]
    errors += _of_port(action.port, f"{path}.port")
    if action.scheme not in _SCHEMES:
        errors.append(not_supported(f"{path}.scheme", action.scheme, _SCHEMES))
    for header in action.http_headers:
        errors += [invalid(f"{path}.httpHeaders", header.name, flaw) for flaw in header_flaws(header.name)]
    return errors


def _of_tcp_socket(handler: V1Handler, path: str) -> list[FieldError] | None:
    return None if handler.tcp_socket is None else _of_port(handler.tcp_socket.port, f"{path}.port")


def _of_sleep(handler: V1Handler, grace_period: int | None, path: str) -> list[FieldError] | None:
    if handler.sleep is None:
        return None
    seconds = handler.sleep.seconds
    if grace_period is None or 0 <= seconds <= grace_period:
        return []
    limit = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
    return [invalid(path, seconds, limit)]


def _of_port(port: int | str, path: str) -> list[FieldError]:
    flaws = port_name_flaws(port) if isinstance(port, str) else port_number_flaws(port)
    return [invalid(path, port, flaw) for flaw in flaws]
