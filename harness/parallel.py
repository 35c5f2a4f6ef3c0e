"""The same thing done to many pods, several at a time, with the progress of it on a terminal."""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from harness.options import say
from harness.output import message_of

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["DEFAULT_JOBS", "for_each_pod", "jobs_option"]

DEFAULT_JOBS = 8

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


def jobs_option(command: F) -> F:
    """Add --jobs."""
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=DEFAULT_JOBS,
        show_default=True,
        metavar="N",
        help="How many pods at a time.",
    )(command)


def for_each_pod(
    pods: Sequence[tuple[str, str]], action: Callable[[str, str], T], *, jobs: int, label: str
) -> list[tuple[tuple[str, str], T]]:
    """Call `action(namespace, name)` for every pod and return what succeeded, in the order of `pods`.

    A failure is a line on stderr, and does not keep the others from being tried. On an interrupt the pods under way
    are finished, and no more begun.
    """
    from concurrent.futures import ThreadPoolExecutor

    done: dict[tuple[str, str], T] = {}
    failures: list[str] = []
    with ThreadPoolExecutor(max(1, min(jobs, len(pods)))) as pool:
        try:
            futures = {pool.submit(action, *pod): pod for pod in pods}
            for future in _shown(futures, label):
                namespace, name = futures[future]
                try:
                    done[namespace, name] = future.result()
                except Exception as error:  # noqa: BLE001 -- of one pod; shown below
                    failures.append(f"Error: pod {namespace}/{name}: {message_of(error)}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for failure in failures:
        say(failure)
    return [(pod, done[pod]) for pod in pods if pod in done]


def _shown(futures: "Collection[Future[T]]", label: str) -> "list[Future[T]]":
    """Wait for all; more than one are shown as they end, where stderr is a terminal."""
    from concurrent.futures import as_completed

    ending = as_completed(futures)
    if len(futures) == 1 or not sys.stderr.isatty():
        return list(ending)
    with click.progressbar(ending, length=len(futures), label=label, file=sys.stderr) as bar:
        return list(bar)
