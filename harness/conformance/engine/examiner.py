"""Judging the checks of one plugin: repetitions, and the causes that several violations have in common."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock, get_ident
from typing import Final

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions, StoppedError
from harness.conformance.engine.attempt import (
    ORDINARY_ADD,
    Attempt,
    attempt,
    not_examined,
    on_busy_machine,
    took_too_long,
    without_node,
)
from harness.conformance.engine.pace import Quiet, is_busy, slowness
from harness.conformance.engine.prerequisites import (
    PREREQUISITES,
    RESULT_VERSION,
    Prerequisite,
    prerequisites_of,
    version_differs,
)
from harness.conformance.finding import Finding, Outcome, UnexecutableError
from harness.conformance.subject import Subject

_FAILED: Final = (Outcome.FAIL, Outcome.WARN)
_JUDGED: Final = (Outcome.PASS, *_FAILED)
_LOOKS: Final = 2
"""How often a violation on a busy machine is looked at again."""
_QUOTED: Final = 200
"""Characters of an observation that is repeated in other findings."""
_NAMES: Final = frozenset(each.check for each in PREREQUISITES)


class Examiner:
    """Finds what the checks of a plugin find. A check that others depend on runs once; any threads may ask."""

    def __init__(
        self,
        subject: Subject,
        catalogue: Sequence[Check],
        *,
        state_dir: Path,
        options: CheckOptions,
        repeat: int = 1,
        causes: Sequence[Prerequisite] = PREREQUISITES,
    ) -> None:
        """Store the subject; `catalogue` has every check, also those that are not asked for.

        Each check runs `repeat` times, and only `causes` keep others from judging.
        """
        self._allowed = frozenset(each.check for each in causes)
        self._subject = subject
        self._state_dir = state_dir
        self._options = options
        self._repeat = repeat
        self._checks = {check.id: check for check in catalogue}
        self._quiet = Quiet()
        self._lock = RLock()
        """Held while a check runs that others depend on: two of them may ask for each other."""
        self._causes: dict[str, Attempt] = {}
        self._running: list[tuple[int, str]] = []
        """The causes that a thread is looking for: one asks for the next, and none for itself. Other threads wait."""

    def find(self, check: Check) -> Finding:
        """Return the finding of a check. Raises PreparationError, StoppedError."""
        if check == self._checks.get(check.id) and check.id in _NAMES:
            return self._cause(check.id).finding
        return self._judge(check, PREREQUISITES).finding

    def known(self, check: str) -> Finding | None:
        """Return the finding of the check of this ID, if it is one that others depend on and has been run."""
        found = self._causes.get(check)
        return found.finding if found else None

    def _cause(self, name: str) -> Attempt:
        if name not in self._causes:
            with self._lock:
                if name not in self._causes:
                    self._running.append((get_ident(), name))
                    try:
                        self._causes[name] = self._judge(self._checks[name], prerequisites_of(name))
                    finally:
                        self._running.remove((get_ident(), name))
        return self._causes[name]

    def _judge(self, check: Check, prerequisites: Sequence[Prerequisite]) -> Attempt:
        """Run a check, as often as asked for or as its failure makes necessary."""
        if prerequisites:
            ordinary = self._cause(ORDINARY_ADD)
            if isinstance(ordinary.violation, UnexecutableError):
                nothing = Finding(check, self._subject, Outcome.NOT_EXAMINED, 0.0)
                return Attempt(not_examined(nothing, ORDINARY_ADD, _why(ordinary.finding)))
        runs: list[Attempt] = []
        wanted = self._repeat
        while len(runs) < wanted:
            try:
                runs.append(self._run(check, prerequisites))
            except StoppedError:
                if not runs:
                    raise
                break
            if runs[-1].finding.outcome not in _JUDGED:
                break
            if runs[-1].finding.outcome in _FAILED:
                wanted = max(wanted, 1 + check.repeats)
        told = _summary(runs)
        for each in runs:
            if each.finding.kept != told.finding.kept:
                without_node(each.finding)
        return told

    def _run(self, check: Check, prerequisites: Sequence[Prerequisite]) -> Attempt:
        corrects = check.id not in {ORDINARY_ADD, RESULT_VERSION} and self._has_wrong_version()
        options = replace(self._options, corrects_version=corrects)
        made = self._attempt(check, options)
        for each in prerequisites:
            if self._can_ask(each) and each.concerns(made) and each.explains(cause := self._cause(each.check), made):
                without_node(made.finding)
                return Attempt(not_examined(made.finding, each.check, _why(cause.finding)))
        shown = made.violation.execution if made.violation else None
        if shown is not None and shown.timed_out:
            self._options.hangs.report(shown.verb, check.id)
        return made

    def _attempt(self, check: Check, options: CheckOptions) -> Attempt:
        """Run a check beside others; on a busy machine, run it again alone if it found a violation.

        A violation that does not appear each time, or that a time limit has made, is none then.
        """
        with self._quiet.beside():
            made = attempt(check, self._subject, state_dir=self._state_dir, options=options)
        if made.violation is None or not is_busy(slow := slowness(self._state_dir)):
            return made
        for _ in range(_LOOKS):
            without_node(made.finding)
            with self._quiet.alone():
                slow = max(slow, slowness(self._state_dir))
                scaled = replace(options, timeout=options.timeout * slow)
                made = attempt(check, self._subject, state_dir=self._state_dir, options=scaled)
            if made.violation is None:
                return Attempt(on_busy_machine(made.finding, slow))
        if took_too_long(made, slow):
            without_node(made.finding)
            return Attempt(on_busy_machine(made.finding, slow))
        return made

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
        if not any(map(version_differs, self._cause(ORDINARY_ADD).finding.transcript)):
            return False
        return self._cause(RESULT_VERSION).finding.outcome in _FAILED


def _summary(runs: Sequence[Attempt]) -> Attempt:
    """Return the first run that failed, or else the last one, with the counts of all."""
    failed = [each for each in runs if each.finding.outcome in _FAILED]
    if failed:  # the last run may have come to no judgement
        runs = [each for each in runs if each.finding.outcome in _JUDGED]
    told = failed[0] if failed else runs[-1]
    seconds = sum(each.finding.seconds for each in runs)
    finding = told.finding._replace(runs=len(runs), failed_runs=len(failed), seconds=seconds)
    if finding.is_intermittent:
        often = f"intermittent: failed {finding.failed_runs} of {finding.runs} runs"
        finding = finding._replace(detail=f"{often}; {finding.detail}")
    return told._replace(finding=finding)


def _why(finding: Finding) -> str:
    """Return the observation of the cause, shortened."""
    said = finding.got or finding.detail
    return said if len(said) <= _QUOTED else said[:_QUOTED] + "…"
