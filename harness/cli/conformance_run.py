"""A run of `cni-harness conformance` and `matrix`: its progress, the signals that end it early, and its findings."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import click

from harness.cli.conformance_options import ConformanceOptions, demand_known, threshold_of
from harness.cli.interruption import handled_by
from harness.cli.options import Settings
from harness.output import message_of, replace_line, say

if TYPE_CHECKING:
    from types import FrameType

    from harness.conformance.check_options import CheckOptions, StopRequest
    from harness.conformance.engine.examination import Examination
    from harness.conformance.engine.run import ConformanceRun
    from harness.conformance.finding import Finding
    from harness.conformance.known_failures import KnownFailures
    from harness.conformance.reproduce import Arguments
    from harness.conformance.subject import Subject

_SECONDS: Final = 10.0
"""The time between two lines, if stderr is no terminal."""

_JOBS_OF_A_PROCESSOR: Final = 2
"""Checks wait for the kernel and for time-outs about as long as they compute."""
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

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._write("")

    def show(self, finding: "Finding", done: int, total: int) -> None:
        """Tell that a check has ended, one of `total` for its plugin."""
        self._failed += finding.is_red
        if finding.subject != self._subject:
            self._subject, self._began = finding.subject, time.monotonic()
        rest = ""
        if _ENOUGH <= done < total:
            # As long for each of the others; the clock begins with the first finding.
            seconds = (time.monotonic() - self._began) / (done - 1) * (total - done)
            rest = f", about {seconds:.0f} s left"
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


@contextmanager
def conformance_run(
    options: ConformanceOptions,
    settings: Settings,
    *,
    known: "KnownFailures | None" = None,
    fail_fast: bool = False,
    keeps: bool = False,
) -> "Iterator[ConformanceRun]":
    """Yield the run, which tells its progress on stderr.

    With `fail_fast` the first red finding ends the run; those that are `known` are not red. `keeps` tells whether the
    nodes of failed checks stay. Raises UsageError, NetworkError.
    """
    from harness.cli.defaults import select_networks
    from harness.conformance.engine.run import ConformanceRun
    from harness.conformance.known_failures import NOTHING_KNOWN
    from harness.conformance.subject import Profile, subjects_of
    from harness.libcni.networks import read_network_file

    jobs = options.jobs or (1 if options.watched else _JOBS_OF_A_PROCESSOR * (os.cpu_count() or 1))
    if options.watched and jobs > 1:
        raise click.UsageError("--watch with --jobs: checks that run at once would see each other's files")
    profile = Profile(options.profile) if options.profile else None
    if options.confs and options.names:
        raise click.UsageError("--conf and --network: a file has its networks' names in it")
    networks = [read_network_file(path) for path in options.confs] or select_networks(settings, options.names)
    there = [subject.type for network in networks for subject in subjects_of(network, (), profile=profile)]
    demand_known("--plugin", options.plugins, there)
    of_checks = _check_options(options, jobs, keeps=keeps)
    with Progress() as progress:
        halting = threading.Lock()

        def tell(finding: "Finding", done: int, total: int) -> None:
            progress.show(finding, done, total)
            with halting:
                if fail_fast and finding.is_red and not of_checks.stop.is_requested:
                    of_checks.stop.ask()

        yield ConformanceRun(
            networks=networks,
            checks=options.checks(),
            state_dir=settings.state_dir,
            options=of_checks,
            plugins=options.plugins,
            profile=profile,
            jobs=jobs,
            repeat=options.repeat,
            known=known or NOTHING_KNOWN,
            progress=tell,
            remark=progress.remark,
        )


def _check_options(options: ConformanceOptions, jobs: int, *, keeps: bool) -> "CheckOptions":
    from harness.conformance.check_options import CheckOptions

    made = CheckOptions(
        options.timeout,
        tuple(folder.absolute() for folder in options.watched),
        options.preparation,
        threshold=threshold_of(options.fail_on, options.level),
        traffic=options.traffic,
        pod_interface=options.pod_interface,
        keeps=keeps,
    )
    return replace(made, kills=options.points, killers=jobs) if options.chaos else made


def writable_folder(folder: Path) -> None:
    """Make a folder and a file in it, which is removed. Raises OSError, which names the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder.absolute())) from error


@contextmanager
def stopped_by_signals(stop: "StopRequest") -> Iterator[list[int]]:
    """Have the signals that end the program stop the run in the block instead; the yielded list gets their numbers."""
    arrived: list[int] = []

    def ask(number: int, _: "FrameType | None") -> None:
        stop.ask()
        arrived.append(number)
        if len(arrived) == 1:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), _NOTICE)  # a signal may interrupt a write through a buffer

    with handled_by(ask):
        yield arrived


class SuiteResult(NamedTuple):
    """The findings of one suite. `error` is the one that ended the run, `cut_short` the reason for an early end."""

    findings: Sequence["Finding"] = ()
    left_for_good: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    error: Exception | None = None
    cut_short: str = ""

    def pass_on(self, signals: Sequence[int]) -> None:
        """Raise the first signal again, for the handler of the whole program, which ends it; or the error."""
        if signals:
            signal.raise_signal(signals[0])
        if self.error is not None:
            raise self.error

    def examination(self, run: "ConformanceRun", began: datetime, arguments: "Arguments", build: str) -> "Examination":
        """Return the record of the run. Raises OSError."""
        from harness.conformance.engine.examination import Examination, examined_files

        return Examination(
            findings=tuple(self.findings),
            files=tuple(examined_files(self.findings, run.state_dir)),
            began=began,
            cut_short=self.cut_short,
            fail_on=run.options.threshold.fail_on,
            arguments=arguments,
            left_for_good=self.left_for_good,
            build=build,
        )


def examine_suite(
    run: "ConformanceRun", bin_dirs: Sequence[Path], signals: Sequence[int], *, lenient: bool = False
) -> SuiteResult:
    """Return everything that was found, also if one of the `signals` has stopped the run, or an error has ended it."""
    findings: list[Finding] = []
    failure = None
    try:
        run.findings_of(bin_dirs, lenient=lenient, found=findings)
    except Exception as error:  # noqa: BLE001 -- raised again after the report
        failure = error
    asked = "--fail-fast" if run.options.stop.is_requested else ""
    cut_short = "interrupted" if signals else message_of(failure) if failure else asked
    return SuiteResult(findings, dict(run.left_for_good), failure, cut_short)
