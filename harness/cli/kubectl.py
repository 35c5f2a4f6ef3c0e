"""Pods as kubectl takes them on the command line, and as `kubectl get pods` shows them.

It takes `web`, `pod/web`, or the kind before the names, `pods web db`. The functions that read names are callbacks of
click's arguments, and raise UsageError for another kind.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from api.pod import V1Pod
    from api.status import V1ContainerStatus, V1PodStatus

_KINDS: Final = ("pod", "pods", "po")

POD_HEADINGS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP")

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def named_pods(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names. A single `pod` is a name."""
    return tuple(map(_name, words[1:] if len(words) > 1 and words[0] in _KINDS else words))


def named_pod(ctx: click.Context, param: click.Parameter, words: str | tuple[str, ...]) -> str:
    """Return the name of one pod."""
    names = named_pods(ctx, param, (words,) if isinstance(words, str) else words)
    if len(names) != 1:
        raise click.UsageError(f"wanted the name of one pod, not of {len(names)}")
    return names[0]


def listed_pods(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names after the kind, or with it: `pods`, `pod web`, `pod/web`; none for all."""
    if not words or "/" in words[0]:
        return named_pods(ctx, param, words)
    if words[0] not in _KINDS:
        raise click.UsageError(f'there is no kind "{words[0]}" here, only pods: `get pods`, `get pod NAME`')
    return tuple(map(_name, words[1:]))


def _name(word: str) -> str:
    kind, slash, name = word.rpartition("/")
    if slash and (kind not in _KINDS or not name):
        raise click.UsageError(f"{word!r}: wanted the name of a pod, as NAME or pod/NAME")
    return name


def pod_row(pod: "V1Pod", status: "V1PodStatus") -> list[str]:
    """Return the cells of a pod."""
    statuses = status.container_statuses
    return [
        pod.metadata.namespace,
        pod.metadata.name,
        f"{sum(each.ready for each in statuses)}/{len(pod.spec.containers)}",
        status_word(pod, status),
        str(sum(each.restart_count for each in statuses)),
        age(status.start_time),
        status.pod_ip,
    ]


def status_word(pod: "V1Pod", status: "V1PodStatus") -> str:
    """Return one word on a pod (kubectl's printPod): its phase, or the reason why a container does not run."""
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    initial, sidecars = len(pod.spec.init_containers), [each.name for each in pod.spec.sidecars()]
    for number, each in enumerate(status.init_container_statuses):
        terminated, waiting = each.state.terminated, each.state.waiting
        if terminated is not None and terminated.exit_code == 0:
            continue
        if each.state.running is not None and each.started and each.name in sidecars:
            continue
        if terminated is not None:
            return f"Init:{terminated.reason or f'ExitCode:{terminated.exit_code}'}"
        if waiting is not None and waiting.reason not in {"", "PodInitializing"}:
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{initial}"
    word = status.reason or status.phase or "Pending"
    for each in reversed(status.container_statuses):
        word = _container_word(each) or word
    if word == "Completed" and any(each.state.running is not None for each in status.container_statuses):
        return "Running" if all(each.ready for each in status.container_statuses) else "NotReady"
    return word


def age(time: str) -> str:
    """Return how long ago a time was, in its two largest units; empty for no time."""
    if not time:
        return ""
    left = max(0, int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()))
    parts = []
    for seconds, unit in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def _container_word(each: "V1ContainerStatus") -> str:
    if each.state.waiting is not None:
        return each.state.waiting.reason
    terminated = each.state.terminated
    if terminated is not None:
        return terminated.reason or f"ExitCode:{terminated.exit_code}"
    return ""
