"""A run of `cni-harness conformance`: its progress on stderr, the signals that end it early, and its findings."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from harness.cli.interruption import handled_by
from harness.output import message_of, replace_line, say

if TYPE_CHECKING:
    from types import FrameType

    from harness.conformance.check_options import StopRequest
    from harness.conformance.engine.run import ConformanceRun
    from harness.conformance.finding import Finding
    from harness.conformance.subject import Subject

_SECONDS: Final = 10.0
"""The time between two lines, if stderr is no terminal."""

_ENOUGH: Final = 8
"""Checks that tell how long one takes."""
_NOTICE: Final = b"Interrupted: running checks end, then the report is written. Once more, and they are broken off.\n"


class Progress:
    """Tells how many checks are done, until the end of the with block, which erases the line on a terminal."""

    def __init__(self, interval: float = _SECONDS) -> None:
        """Tell nothing yet. Without a terminal, lines are `interval` seconds apart."""
        self._interval = interval
        self._is_terminal = sys.stderr.isatty()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = 0
        self._line = ""
        self._subject: Subject | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        if not self._is_terminal:
            self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._write("")

    def show(self, finding: "Finding", done: int, total: int) -> None:
        """Tell that a check has ended, one of `total` for its plugin."""
        self._failed += finding.is_red
        if finding.subject != self._subject:
            self._subject, self._began = finding.subject, time.monotonic()
        rest = _rest(time.monotonic() - self._began, done, total)
        if self._is_terminal:
            self._write(f"{finding.subject}: {done}/{total}{rest} {finding.check.id} {finding.outcome}")
        self._line = f"{done}/{total} checks of {finding.subject}, {self._failed} failed so far{rest}"

    def remark(self, message: str) -> None:
        """Tell something besides the findings."""
        self._write("")
        say(message)

    def _repeat(self) -> None:
        while not self._ended.wait(self._interval):
            if self._line:
                say(self._line)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            replace_line(text)


def _rest(seconds: float, done: int, total: int) -> str:
    """Return how long the other checks of a plugin will take if they are like those before; empty at its beginning."""
    if done < _ENOUGH or done == total:
        return ""
    # The clock begins with the first finding.
    return f", about {seconds / (done - 1) * (total - done):.0f} s left"


class StopSignal:
    """The first signal that asked for the end of a run, if one did."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def reason(self) -> str:
        """The reason for the end of the run, empty if no signal asked for it."""
        return "" if self.number is None else "interrupted"

    def pass_on(self) -> None:
        """Raise the signal again, for the handler of the whole program, which ends it with the signal's exit code."""
        if self.number is not None:
            signal.raise_signal(self.number)


@contextmanager
def stopped_by_signals(stop: "StopRequest") -> Iterator[StopSignal]:
    """Have the signals that end the program stop the run in the block instead."""
    interruption = StopSignal()

    def ask(number: int, frame: "FrameType | None") -> None:
        del frame
        stop.ask()
        if interruption.number is None:
            interruption.number = number
            with suppress(OSError):
                os.write(sys.stderr.fileno(), _NOTICE)  # a signal may interrupt a write through a buffer

    with handled_by(ask):
        yield interruption


class SuiteResult(NamedTuple):
    """The findings of one suite. `error` is the one that ended the run, `cut_short` the reason for an early end."""

    findings: Sequence["Finding"]
    left_for_good: Mapping[str, tuple[str, ...]]
    error: Exception | None = None
    cut_short: str = ""


def examine_suite(run: "ConformanceRun", bin_dirs: Sequence[Path], *, lenient: bool = False) -> SuiteResult:
    """Return everything that was found, also if the run was stopped, or an error has ended it.

    Without an error, `cut_short` is empty: the caller knows who asked for the end.
    """
    findings: list[Finding] = []
    failure = None
    try:
        run.findings_of(bin_dirs, lenient=lenient, found=findings)
    except Exception as error:  # noqa: BLE001 -- raised again after the report
        failure = error
    return SuiteResult(findings, dict(run.left_for_good), failure, message_of(failure) if failure else "")
