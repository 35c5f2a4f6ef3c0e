"""Chaos: ADD is killed at many points, one after the other, and DEL has to clean up after each kill.

Plugins die half-way when a kubelet is restarted or a node is out of memory. Permanent leftovers are found weeks later,
when the addresses are used up. After each kill come GC and the DEL that a runtime sends after an ADD that has failed.
Then the node has to be as it was.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple, TypeAlias

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine import expect, kill_at_point
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import settled
from harness.conformance.engine.trial import Trial
from harness.conformance.subject import Subject
from harness.libcni.execute import Execution

_FEW_CALLS: Final = 250
"""System calls of a program that leaves its work to another process: such an ADD is interrupted by the clock."""
_BEFORE_THE_FIRST_CHANGE: Final = 0.2
"""The part of the kills that come before the plugin has changed anything."""
_STEPS: Final = 64
"""The first change is found to this part of an ADD: each halving takes another ADD."""
_SETTLING_SECONDS: Final = 3.0
"""Time for a process that was not killed to notice the kill."""


class PointUnit(StrEnum):
    """The unit of a kill's point, in the words of kill_at_point.py."""

    CALLS = "calls"
    TIME = "after"


_UNITS: Final = {PointUnit.CALLS: "system calls", PointUnit.TIME: "microseconds"}
_NewNode: TypeAlias = Callable[[], AbstractContextManager[Trial]]
"""Makes a node on which the plugin is killed, one time after the other."""


class Kill(NamedTuple):
    """One kill, at a system call or a microsecond, and the leftovers in words."""

    point: int
    leaked: tuple[str, ...]


class ChaosResult(NamedTuple):
    """The outcome of all kills. `length` is the number of system calls, or microseconds, of an undisturbed ADD."""

    by: PointUnit
    length: int
    kills: tuple[Kill, ...]

    @property
    def leaks(self) -> list[Kill]:
        """The kills that left something."""
        return [kill for kill in self.kills if kill.leaked]

    def __str__(self) -> str:
        return f"killed at {len(self.kills)} of {self.length} {_UNITS[self.by]}: {len(self.leaks)} leaked"


def kill_adds(subject: Subject, *, state_dir: Path, options: CheckOptions) -> ChaosResult:
    """Kill the ADD of a plugin, as often as the options say.

    Raises ViolationError if an undisturbed ADD fails; OSError, SnapshotError.
    """
    new_node = partial(Trial.on_new_node, subject, state_dir, options, "chaos")
    calls, microseconds = _measure(new_node)
    by, length = (PointUnit.CALLS, calls) if calls >= _FEW_CALLS else (PointUnit.TIME, microseconds)
    # If another process does the work, it undoes a change before the change can be seen.
    first = _first_change(new_node, calls) if by is PointUnit.CALLS else 1
    wanted = sorted(set(_spread(options.kills, first, length)))
    jobs = options.killers

    # Each job gets early and late points, so that all take about the same time.
    with ThreadPoolExecutor(jobs, thread_name_prefix="chaos") as pool:
        shares = pool.map(partial(_kills, new_node, by), [wanted[number::jobs] for number in range(jobs)])
        kills = sorted((kill for share in shares for kill in share), key=lambda kill: kill.point)
    return ChaosResult(by, length, tuple(kills))


def _measure(new_node: _NewNode) -> tuple[int, int]:
    """Return the number of system calls of an ADD, and the microseconds of an ADD that is not traced.

    Raises ViolationError if one of them fails.
    """
    with new_node() as trial:
        trial.warm_up()
        traced, calls, _ = killed(trial, "ADD", trial.new_container(), PointUnit.CALLS, 0)
        timed, _, microseconds = killed(trial, "ADD", trial.new_container(), PointUnit.TIME, 0)
    for execution in (traced, timed):
        expect.succeeded(execution)
    if not microseconds:
        raise OSError("the program that kills at a point has not reported its measurements")
    return calls, microseconds


def _first_change(new_node: _NewNode, calls: int) -> int:
    """Return a system call shortly before an ADD's first change, found by halving."""
    low, high = 1, calls
    with new_node() as trial:
        trial.warm_up()
        while high - low > calls // _STEPS:
            middle = (low + high) // 2
            container = trial.new_container()
            trial.prepare(container)
            before = trial.snapshot(container)
            killed(trial, "ADD", container, PointUnit.CALLS, middle)
            if trial.leftovers(before, trial.snapshot(container)):
                high = middle
            else:
                low = middle + 1
            trial.delete(container)
    return low


def _kills(new_node: _NewNode, by: PointUnit, points: list[int]) -> list[Kill]:
    """Kill at each of the points; a node with leftovers is not used again."""
    kills: list[Kill] = []
    while len(kills) < len(points):
        with new_node() as trial:
            resident = trial.new_container()
            trial.attach(resident)
            trial.warm_up()
            for point in points[len(kills) :]:
                kills.append(Kill(point, _left_after(trial, resident, by, point)))
                if kills[-1].leaked:
                    break
    return kills


def _left_after(trial: Trial, resident: TrialContainer, by: PointUnit, point: int) -> tuple[str, ...]:
    """Kill the ADD of a new container at a point, clean up as a runtime does, and return the leftovers in words."""
    container = trial.new_container()
    before = trial.snapshot(container)
    trial.prepare(container)
    killed(trial, "ADD", container, by, point)
    deleted = trial.delete(container)
    trial.detach_others(container)
    if trial.has("GC"):
        trial.gc(resident)
    left = tuple(each.in_words() for each in settled(trial, before, container, seconds=_SETTLING_SECONDS))
    failure = (f"DEL: {expect.ending(deleted)}",) if deleted.exit_code else ()
    return failure + left


def killed(
    trial: Trial,
    verb: str,
    container: TrialContainer,
    by: PointUnit,
    point: int,
    ending: signal.Signals = signal.SIGKILL,
) -> tuple[Execution, int, int]:
    """Execute a verb that gets a signal at a point, or none for 0; return its system calls and microseconds."""
    # In the node's folder, since a new file in /tmp is not on the node, which has its own /tmp.
    with NamedTemporaryFile("r", prefix="chaos-", dir=trial.node.folder) as report:
        wrapper = (sys.executable, "-I", kill_at_point.__file__, by, str(point), str(int(ending)), report.name)
        execution = trial.call(verb, container, wrapper=wrapper)
        calls, _, microseconds = (report.read() or "0 0").partition(" ")  # empty if it took too long
    return execution, int(calls), int(microseconds)


def _spread(points: int, first: int, length: int) -> Iterator[int]:
    """Yield points between 1 and `length`, most of them from the first change on, evenly."""
    early = round(points * _BEFORE_THE_FIRST_CHANGE) if first > 1 else 0
    for count, start, end in ((early, 1, first), (points - early, first, length)):
        step = max(1.0, (end - start) / max(1, count))
        for number in range(count):
            if start + number * step <= end:
                yield int(start + number * step)
