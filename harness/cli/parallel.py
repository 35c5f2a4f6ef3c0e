"""One action for many pods, several at a time, with progress on a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import click

from fast_stdlib import recorded_by, recorder
from harness.cli.interruption import SignalArrival, interruption_deferred
from harness.output import message_of, say

if TYPE_CHECKING:
    from concurrent.futures import Future
    from queue import SimpleQueue

PodName = tuple[str, str]

T = TypeVar("T")


def jobs_option_for(things: str, *short: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return the option --jobs for a verb that works on several `things` at a time; `short` are other names of it."""
    number, words = click.IntRange(min=1), f"How many {things} at a time."
    return click.option(*short, "--jobs", type=number, default=8, show_default=True, metavar="N", help=words)


jobs_option = jobs_option_for("pods")
"""Adds --jobs."""


def for_each_pod(
    pods: Sequence[PodName], action: Callable[[str, str], T], *, jobs: int, label: str, done: str
) -> list[tuple[PodName, T]]:
    """Call `action(namespace, name)` for every pod and return the successful results, in the order of `pods`.

    A failure is a line on stderr, and the other pods are still tried. On an interrupt the pods under way are finished,
    and no more begun. stderr names the pods under way, and at the end the pods that are `done` and those not begun.
    Only for the main thread, which gets the signals.
    """
    from queue import SimpleQueue

    events: SimpleQueue[Future[T] | None] = SimpleQueue()  # its put() may interrupt its get()
    with interruption_deferred(lambda: events.put(None)) as arrival:
        futures = _finished(pods, _Begun(action, arrival), events, jobs=jobs, label=label)
        results: dict[PodName, T] = {}
        not_begun = []
        for pod, future in futures.items():
            try:
                results[pod] = future.result()
            except _NotBegunError:
                not_begun.append(pod)
            except Exception as error:  # noqa: BLE001 -- of one pod; shown
                say(f"Error: pod {_named([pod])}: {message_of(error)}")
        if arrival and results:
            say(f"{done}: {_named(results)}")
        if not_begun:
            say(f"Not begun: {_named(not_begun)}")
    return list(results.items())


class _NotBegunError(Exception):
    """The signal came before the pod's turn."""


class _Begun(Generic[T]):
    """The action, and the pods for which it was begun and has not ended."""

    def __init__(self, action: Callable[[str, str], T], arrival: SignalArrival) -> None:
        self._action = action
        self._arrival = arrival
        self._lock = Lock()
        self._pods: list[PodName] = []

    def begin(self, pod: PodName) -> T:
        """Call the action. Raises _NotBegunError after the signal."""
        with self._lock:
            if self._arrival:
                raise _NotBegunError
            self._pods.append(pod)
        try:
            return self._action(*pod)
        finally:
            with self._lock:
                self._pods.remove(pod)

    def say_which(self) -> None:
        """Name the pods under way on stderr, after the signal, when no other pod is begun."""
        with self._lock:
            pods = list(self._pods)
        if pods:
            say(f"Interrupted: finishing {'pod' if len(pods) == 1 else 'pods'} {_named(pods)}")


def _finished(
    pods: Sequence[PodName], begun: _Begun[T], events: "SimpleQueue[Future[T] | None]", *, jobs: int, label: str
) -> "dict[PodName, Future[T]]":
    """Begin each pod and wait for all; `events` has each that ends, and None for a signal."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, min(jobs, len(pods)))) as pool, _progress(len(pods), label) as advance:
        taking = recorder()

        def begin(pod: PodName) -> T:
            track = pod[1] if len(pods) > 1 else ""
            with recorded_by(None if taking is None else taking.branch(track)):
                return begun.begin(pod)

        futures = {pod: pool.submit(begin, pod) for pod in pods}
        for future in futures.values():
            future.add_done_callback(events.put)
        waited_for = len(futures)
        while waited_for:
            if events.get() is None:
                begun.say_which()
            else:
                waited_for -= 1
                advance()
    return futures


@contextmanager
def _progress(length: int, label: str) -> Iterator[Callable[[], None]]:
    """Show the number of ended pods, if there are several and stderr is a terminal; call the result for each."""
    if length <= 1 or not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def _named(pods: Iterable[PodName]) -> str:
    return ", ".join(f"{namespace}/{name}" for namespace, name in pods)
