"""`cni-harness logs`: the output of a container."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.kubectl import named_pod
from harness.cli.kubelet_node import pods_on_record
from harness.cli.manifest_pods import one_pod
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.files import open_regular

if TYPE_CHECKING:
    from api.container import V1Container
    from api.pod import V1Pod

_LOOK_S = 0.2
_CRI_FIELDS = 4


@verb(
    "logs",
    examples={
        "logs web -c server": "Print the output of a container",
        "logs web -c server --tail 20 --timestamps": "Only the last lines, with times",
    },
    root="reads the records of pods",
)
@click.argument("pod", metavar="[pod/]POD", callback=named_pod, shell_complete=complete_pod)
@click.option("-c", "--container", "name", default="", metavar="NAME", help="The container.  [default: the first]")
@click.option("-f", "--follow", is_flag=True, help="Go on with each new line, until the container ends.")
@click.option("-p", "--previous", is_flag=True, help="The attempt before the newest one.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last lines.  [default: all]")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@namespace_option
def command(
    settings: Settings,
    *,
    pod: str,
    name: str,
    follow: bool,
    previous: bool,
    tail: int | None,
    timestamps: bool,
    namespace: str,
) -> int:
    """Print the output of a pod's container, as `kubectl logs` does."""
    from harness.kubelet.paths import log_attempts

    found, status = one_pod(settings, namespace, pod)
    container = _container(found, name)
    folder = settings.kubelet_paths().log(found, container, 0).parent
    attempts = log_attempts(folder)
    statuses = (*status.container_statuses, *status.init_container_statuses)
    states = [(each.state, each.last_state) for each in statuses if each.name == container.name]
    # The container has ended, and is to be started again.
    waits = any(state.waiting is not None and last.terminated is not None for state, last in states)
    if len(attempts) < 1 + (previous and not waits):
        what = "previous terminated container" if previous else "container"
        raise click.ClickException(f'{what} "{container.name}" in pod "{pod}" not found: it has no log')
    # A container that waits for its next attempt has none that runs: the last one is the previous one.
    log = attempts[-2 if previous and not waits else -1]
    with open(open_regular(log), "rb") as file:  # noqa: PTH123 -- an open file
        whole = file.read()
    whole = whole[: whole.rfind(b"\n") + 1]  # the last line may be half written
    lines = whole.splitlines(keepends=True)
    for line in lines if tail is None else lines[max(0, len(lines) - tail) :]:
        _print(line, timestamps=timestamps)
    if follow and not previous:

        def has_ended() -> bool:
            return log not in log_attempts(folder)[-1:] or _is_over(settings, found, container.name, int(log.stem))

        for line in _followed(log, len(whole), has_ended):
            _print(line, timestamps=timestamps)
    return 0


def _is_over(settings: Settings, pod: "V1Pod", container: str, attempt: int) -> bool:
    """Tell whether an attempt has ended by the status that kubelet told last, or the pod is gone."""
    for each, status in pods_on_record(settings):
        if each.metadata.uid == pod.metadata.uid:
            for one in (*status.container_statuses, *status.init_container_statuses):
                ended = one.state.terminated or (one.state.waiting and one.last_state.terminated)
                if one.name == container and one.restart_count >= attempt and ended:
                    return True
            return False
    return True


def _container(pod: "V1Pod", name: str) -> "V1Container":
    if not pod.spec.containers:
        raise click.ClickException(f"pod {pod.metadata.name} has no containers: `cni-harness add` made it")
    if (found := pod.spec.container(name or pod.spec.containers[0].name)) is not None:
        return found
    known = ", ".join(each.name for each in pod.spec.all_containers())
    raise click.ClickException(f"container {name} is not valid for pod {pod.metadata.name}; there are {known}")


def _followed(log: Path, offset: int, has_ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yield new lines until the container has ended, and all of its lines were read."""
    with open(open_regular(log), "rb") as file:  # noqa: PTH123 -- an open file
        file.seek(offset)
        while True:
            last = has_ended()  # before the read: lines may come until the end
            while (line := file.readline()).endswith(b"\n"):
                yield line
            if last:
                return
            file.seek(-len(line), 1)
            time.sleep(_LOOK_S)


def _print(line: bytes, *, timestamps: bool) -> None:
    """Print a line of the Container Runtime Interface's format: time, stream, P or F, text."""
    fields = line.rstrip(b"\n").split(b" ", _CRI_FIELDS - 1)
    if len(fields) < _CRI_FIELDS:
        return
    moment, stream, kind, text = fields
    out = sys.stderr.buffer if stream == b"stderr" else sys.stdout.buffer
    out.write((moment + b" " if timestamps else b"") + text + (b"" if kind == b"P" else b"\n"))
    out.flush()
