"""How `run` looks at its pods: whether each has settled, and why one is not ready."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from harness.cli.kubectl import status_word
from harness.cli.kubelet_node import pods_on_record
from harness.cli.manifest_pods import reading_runtime
from harness.cli.options import Settings
from harness.output import printable

if TYPE_CHECKING:
    from api.pod import V1Pod
    from api.status import V1PodStatus
    from harness.kubelet.events import Event
    from harness.kubelet.status.readiness import Failure

POLL_S = 0.1
_LOG_LINES = 3
_LINE = 160
"""Characters of a log's line that are shown."""


class _Seen(NamedTuple):
    """A pod at one look; `events` are those since the first look."""

    pod: "V1Pod"
    status: "V1PodStatus"
    events: "list[Event]"


class ReadinessWatch:
    """Looks at pods until each is ready, has ended or has failed, or the time is over."""

    def __init__(self, settings: Settings, uids: set[str], *, timeout: float, min_ready: float) -> None:
        """Wait for at most `timeout` seconds; containers must run for `min_ready` seconds."""
        from harness.kubelet.events import EventRecorder

        self._node = settings.open_node()
        self._paths = settings.kubelet_paths()
        self._settings = settings
        self.uids = uids
        self._timeout, self._min_ready = timeout, min_ready
        self._until = time.monotonic() + timeout
        self._events = EventRecorder(self._paths.pods)
        self._before = {uid: self._events.of(uid) for uid in uids}
        self._next = 0.0
        self._ready_since: dict[str, tuple[frozenset[str], float]] = {}
        self.on_poll: Callable[[int, str], None] = lambda _settled, _word: None
        """Is told the number of settled pods, and a word on the first of the others."""

    def is_over(self) -> bool:
        """Look, ten times a second at most."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + POLL_S
        seen = self._now()
        waited_for = [each for each in seen if not self._is_settled(each)]
        words = [f"{each.pod.metadata.name}: {status_word(each.pod, each.status)}" for each in waited_for]
        self.on_poll(len(seen) - len(waited_for), words[0] if words else "")
        is_settled = len(seen) == len(self.uids) and not waited_for and self._run_still(seen)
        return is_settled or time.monotonic() >= self._until

    def failures(self) -> list[str]:
        """Return the lines on each pod that is not as wanted."""
        seen = self._now()
        gone = len(self.uids) - len(seen)
        lines = [f"Error: {gone} of the pods were deleted meanwhile"] if gone else []
        return lines + [line for each in seen for line in self._failure_lines(each)]

    def _now(self) -> list[_Seen]:
        pods = [(pod, status) for pod, status in pods_on_record(self._settings) if pod.metadata.uid in self.uids]
        return [_Seen(pod, status, self._new_events(pod.metadata.uid)) for pod, status in pods]

    def _new_events(self, uid: str) -> "list[Event]":
        return [event for event in self._events.of(uid) if event not in self._before[uid]]

    def _is_settled(self, seen: _Seen) -> bool:
        """Tell whether a pod has failed, or its containers have run for long enough: one may end after its start."""
        from harness.kubelet.status.readiness import failure_of, is_ready, is_running_for, running_containers

        has_failed = failure_of(seen.status, seen.events) is not None
        if has_failed or not is_ready(seen.status):
            return has_failed
        running, now = running_containers(seen.status), time.monotonic()
        since = self._ready_since.get(seen.pod.metadata.uid)
        if since is None or since[0] != running:
            since = self._ready_since[seen.pod.metadata.uid] = (running, now)
        if not running or now - since[1] >= self._min_ready:
            return True
        return is_running_for(seen.status, self._min_ready, datetime.now(UTC))

    def _run_still(self, seen: list[_Seen]) -> bool:
        """Ask the runtime whether the containers run: kubelet learns of an end up to a second later."""
        from harness.cri.service import RuntimeServiceError
        from harness.kubelet.status.api_status import unattended_status
        from harness.kubelet.status.readiness import running_containers

        try:
            with reading_runtime(self._settings) as service:
                return all(
                    running_containers(each.status)
                    == running_containers(unattended_status(each.pod, each.status, service))
                    for each in seen
                )
        except (RuntimeServiceError, OSError):  # the status says why the pod is not ready
            return True

    def _failure_lines(self, seen: _Seen) -> list[str]:
        from harness.kubelet.status.readiness import Failure, failure_of, is_ready, obstacle_of

        failure = failure_of(seen.status, seen.events)
        if failure is None and not is_ready(seen.status):
            why = obstacle_of(seen.status, seen.events)
            late = f"not ready after {self._timeout:g} s"
            failure = Failure(late) if why is None else why._replace(text=f"{late}: {why.text}")
        if failure is None:
            return []
        metadata = seen.pod.metadata
        text = f"Error: pod {metadata.namespace}/{metadata.name}: {failure.text}"
        return [printable(" ".join(text.split())), *self._log_lines(seen.pod, failure)]

    def _log_lines(self, pod: "V1Pod", failure: "Failure") -> list[str]:
        """Return the command that shows the log of a container, and the end of that log."""
        from harness.kubelet.paths import last_lines, log_attempts

        if not failure.container:
            return []
        words = [self._node.program(), "logs", *(["-p"] if failure.previous else []), pod.metadata.name]
        if pod.metadata.namespace != "default":
            words += ["--namespace", pod.metadata.namespace]
        command = " ".join([*words, "-c", failure.container])
        found = pod.spec.container(failure.container)
        attempts = log_attempts(self._paths.log(pod, found, 0).parent) if found is not None else []
        lines: list[str] = []
        with suppress(OSError):
            lines = last_lines(attempts[-1], _LOG_LINES) if attempts else []
        if not lines:
            return [f"  its log is empty: {command}"]
        return [f"  the end of its log ({command}):", *(f"    {printable(line)[:_LINE]}" for line in lines)]


@contextmanager
def progress(watch: ReadinessWatch) -> Iterator[None]:
    """Show the number of settled pods, and the state of one other, for as long as the block lasts, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with click.progressbar(
        length=len(watch.uids), label="Starting pods", file=sys.stderr, item_show_func=lambda word: word or ""
    ) as bar:

        def show(settled: int, word: str) -> None:
            bar.pos = settled
            bar.current_item = word
            bar.render_progress()

        watch.on_poll = show
        yield
