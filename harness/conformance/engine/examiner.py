"""Judging the checks of one plugin: repetitions, also alone on a busy machine, and causes that violations share."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock, Semaphore, get_ident
from typing import Final

from harness.conformance.catalogue import Check, registered
from harness.conformance.check_options import CheckOptions, StoppedError
from harness.conformance.engine.attempt import (
    ORDINARY_ADD,
    attempt,
    involves_time,
    not_examined,
    without_node,
)
from harness.conformance.engine.prerequisites import (
    PREREQUISITES,
    RESULT_VERSION,
    Prerequisite,
    prerequisites_of,
    version_differs,
)
from harness.conformance.finding import Finding, Outcome, UnexecutableError
from harness.conformance.subject import Subject
from harness.runtime.site import Site

_FAILED: Final = (Outcome.FAIL, Outcome.WARN)
_JUDGED: Final = (Outcome.PASS, *_FAILED)
_LOOKS: Final = 2
"""How often a violation on a busy machine is looked at again."""
_QUOTED: Final = 200
"""Characters of an observation that is repeated in other findings."""
_NAMES: Final = frozenset(each.check for each in PREREQUISITES)
_QUIET_SECONDS: Final = 0.035
"""The time of the commands below on a quiet machine with two processors."""
_TIMES: Final = 3
_BUSY: Final = 2.0
"""The machine is busy if they take so many times longer."""
_PLACES: Final = 256
"""The most threads that work beside each other."""
_COMMANDS: Final = (
    ("/bin/true",),
    ("ip", "link", "add", "pace0", "type", "veth", "peer", "name", "pace1"),
    ("ip", "link", "delete", "pace0"),
)


class Quiet:
    """Has any threads work beside each other, or one of them alone."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._places = Semaphore(_PLACES)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Work beside others, as soon as no thread works alone."""
        with self._turn:
            self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Work alone, as soon as no other thread works."""
        with self._turn:
            for _ in range(_PLACES):
                self._places.acquire()
            try:
                yield
            finally:
                self._places.release(_PLACES)


class Examiner:
    """Finds what the checks of a plugin find. A check that others depend on runs once; any threads may ask."""

    def __init__(
        self,
        subject: Subject,
        *,
        state_dir: Path,
        options: CheckOptions,
        repeat: int = 1,
        causes: Sequence[Prerequisite] = PREREQUISITES,
    ) -> None:
        """Store the subject. Each check runs `repeat` times, and only `causes` keep others from judging.

        All checks have to be registered: harness.conformance.checks does that.
        """
        self._allowed = frozenset(each.check for each in causes)
        self._subject = subject
        self._state_dir = state_dir
        self._options = options
        self._repeat = repeat
        self._checks = {check.id: check for check in registered()}
        self._quiet = Quiet()
        self._lock = RLock()
        """Held while a check runs that others depend on: two of them may ask for each other."""
        self._causes: dict[str, Finding] = {}
        self._running: list[tuple[int, str]] = []
        """The causes that a thread is looking for: one asks for the next, and none for itself. Other threads wait."""

    def find(self, check: Check) -> Finding:
        """Return the finding of a check. Raises PreparationError, StoppedError."""
        if check == self._checks.get(check.id) and check.id in _NAMES:
            return self._cause(check.id)
        return self._judge(check, PREREQUISITES)

    def known(self, check: str) -> Finding | None:
        """Return the finding of the check of this ID, if it is one that others depend on and has been run."""
        return self._causes.get(check)

    def _cause(self, name: str) -> Finding:
        if name not in self._causes:
            with self._lock:
                if name not in self._causes:
                    self._running.append((get_ident(), name))
                    try:
                        self._causes[name] = self._judge(self._checks[name], prerequisites_of(name))
                    finally:
                        self._running.remove((get_ident(), name))
        return self._causes[name]

    def _judge(self, check: Check, prerequisites: Sequence[Prerequisite]) -> Finding:
        """Run a check, as often as asked for or as its failure makes necessary."""
        if prerequisites:
            ordinary = self._cause(ORDINARY_ADD)
            if isinstance(ordinary.violation, UnexecutableError):
                nothing = Finding(check, self._subject, Outcome.NOT_EXAMINED, 0.0)
                return not_examined(nothing, ORDINARY_ADD, _why(ordinary))
        runs: list[Finding] = []
        wanted = self._repeat
        while len(runs) < wanted:
            try:
                runs.append(self._run(check, prerequisites))
            except StoppedError:
                if not runs:
                    raise
                break
            if runs[-1].outcome not in _JUDGED:
                break
            if runs[-1].outcome in _FAILED:
                wanted = max(wanted, 1 + check.repeats)
        told = _summary(runs)
        for each in runs:
            if each.kept != told.kept:
                without_node(each)
        return told

    def _run(self, check: Check, prerequisites: Sequence[Prerequisite]) -> Finding:
        corrects = check.id not in {ORDINARY_ADD, RESULT_VERSION} and self._has_wrong_version()
        options = replace(self._options, corrects_version=corrects)
        made = self._attempt(check, options)
        for each in prerequisites:
            if self._can_ask(each) and each.concerns(made) and each.explains(cause := self._cause(each.check), made):
                without_node(made)
                return not_examined(made, each.check, _why(cause))
        shown = made.violation.execution if made.violation else None
        if shown is not None and shown.timed_out:
            self._options.hangs.report(shown.verb, check.id)
        return made

    def _attempt(self, check: Check, options: CheckOptions) -> Finding:
        """Run a check beside others; on a busy machine, run it again alone if it found a violation.

        A violation that does not appear each time, or that a time limit has made, is none then.
        """
        with self._quiet.beside():
            made = attempt(check, self._subject, state_dir=self._state_dir, options=options)
        if made.violation is None or (slow := slowness(self._state_dir)) < _BUSY:
            return made
        for _ in range(_LOOKS):
            without_node(made)
            with self._quiet.alone():
                slow = max(slow, slowness(self._state_dir))
                scaled = replace(options, timeout=options.timeout * slow)
                made = attempt(check, self._subject, state_dir=self._state_dir, options=scaled)
            if made.violation is None:
                break
        if made.violation is not None and not involves_time(made.violation, made.transcript, slow):
            return made
        without_node(made)
        return not_examined(made, "", f"it is busy, {slow:.0f} times slower than usual")

    def _can_ask(self, prerequisite: Prerequisite) -> bool:
        if prerequisite.check not in self._allowed:
            return False
        if self._subject.profile not in self._checks[prerequisite.check].profiles:
            return False
        return prerequisite.check in self._causes or (get_ident(), prerequisite.check) not in self._running

    def _has_wrong_version(self) -> bool:
        """Tell whether the ordinary result has another cniVersion than its request: one finding is enough."""
        if RESULT_VERSION not in self._allowed:
            return False
        if not any(map(version_differs, self._cause(ORDINARY_ADD).transcript)):
            return False
        return self._cause(RESULT_VERSION).outcome in _FAILED


def _summary(runs: Sequence[Finding]) -> Finding:
    """Return the first run that failed, or else the last one, with the counts of all."""
    failed = [each for each in runs if each.outcome in _FAILED]
    if failed:  # the last run may have come to no judgement
        runs = [each for each in runs if each.outcome in _JUDGED]
    told = failed[0] if failed else runs[-1]
    finding = told._replace(runs=len(runs), failed_runs=len(failed), seconds=sum(each.seconds for each in runs))
    if finding.is_intermittent:
        often = f"intermittent: failed {finding.failed_runs} of {finding.runs} runs"
        finding = finding._replace(detail=f"{often}; {finding.detail}")
    return finding


def _why(finding: Finding) -> str:
    """Return the observation of the cause, shortened."""
    said = finding.got or finding.detail
    return said if len(said) <= _QUOTED else said[:_QUOTED] + "…"


def slowness(state_dir: Path) -> float:
    """Return how many times slower than on a quiet machine a program and a veth pair are now, at least 1.

    Raises OSError; CalledProcessError if no veth pair can be made.
    """
    with Site(state_dir, "conformance") as site:
        node = site.node()
        began = time.monotonic()
        for _ in range(_TIMES):
            for words in _COMMANDS:
                node.run(subprocess.run, words, check=True)
        took = time.monotonic() - began
    return max(1.0, took / _TIMES / _QUIET_SECONDS)
