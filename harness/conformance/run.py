"""A run of the suite: checks, each on a node of its own, and their findings."""

import json
import re
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from harness.conformance import catalogue, expect
from harness.conformance.catalogue import Check, Level
from harness.conformance.course import demand_room
from harness.conformance.finding import Finding, Outcome
from harness.conformance.found_delegates import for_each_delegate
from harness.conformance.preparation import PreparationError
from harness.conformance.privileges import lacking_root
from harness.conformance.profile import Profile
from harness.conformance.subject import Subject
from harness.conformance.trial import Extent, Trial
from harness.conformance.verdict import NotApplicableError, ViolationError
from harness.libcni.execute import Execution
from skel.versions import at_least

__all__ = ["Extent", "examine", "run_check", "with_profile"]

_BINDING: Final = (Level.MUST, Level.SHOULD)
_TELLING: Final = "add-prints-result"
"""The check of plugins whose ADD always fails: this is one finding, and not one of each check that needs an ADD."""
_NUMBERS: Final = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*")
"""The varying parts of one failure's message: container IDs, names of namespaces and interfaces, times."""
_SECRETLESS: Final = "CNI_"
"""The prefix of the variables that are shown."""


def with_profile(subject: Subject, state_dir: Path, extent: Extent) -> Subject:
    """Find out the plugin's profile, unless it is known: an ADD shows it by the objects in the pod.

    Raises ViolationError if the ADD fails.
    """
    if subject.profile is not None:
        return subject
    with Trial.on_new_node(subject, state_dir, extent) as trial:
        before = trial.snapshot()
        result = expect.result(trial.add(), trial.version)
        made = before.sections["pod/links"].keys() != trial.snapshot().sections["pod/links"].keys()
        trial.delete()
    if made:
        return replace(subject, profile=Profile.INTERFACE)
    return replace(subject, profile=Profile.IPAM if result.ips and not result.interfaces else Profile.CHAINED)


def examine(
    subject: Subject,
    checks: Sequence[Check],
    *,
    state_dir: Path,
    extent: Extent,
    jobs: int = 1,
    progress: Callable[[Finding, int, int], object] = lambda *_: None,
) -> list[Finding]:
    """Run the checks that are for the subject's profile, `jobs` at once; return their findings in order.

    `progress` gets each finding, its number and the number of checks.
    If checks do not apply because no ADD succeeds, the check that reports this is run as well, wanted or not.
    Raises PreparationError.
    """
    wanted = [check for check in checks if subject.profile in check.profiles]
    numbers = count(1)

    def run(check: Check) -> Finding:
        finding = run_check(check, subject, state_dir=state_dir, extent=extent)
        progress(finding, next(numbers), len(wanted))
        return finding

    with ThreadPoolExecutor(jobs, thread_name_prefix="conformance") as pool:
        findings = list(pool.map(run, wanted))
    if any(finding.cause == _TELLING for finding in findings):
        telling = [check for check in catalogue.checks() if check.id == _TELLING and check not in wanted]
        findings += [run_check(check, subject, state_dir=state_dir, extent=extent) for check in telling]
    return findings


def run_check(check: Check, subject: Subject, *, state_dir: Path, extent: Extent) -> Finding:
    """Run one check on a node of its own, which is then removed; an unforeseen error is a finding, too."""
    clock = time.monotonic()
    finding = Finding(check, subject, Outcome.PASS, 0.0)
    if not at_least(subject.network.cni_version, check.since):
        why = f"the configuration is of version {subject.network.cni_version}, and this came with {check.since}"
        return finding._replace(outcome=Outcome.NOT_APPLICABLE, detail=why)
    executions: Sequence[Execution] = ()
    try:
        with Trial.on_new_node(subject, state_dir, extent) as trial:
            executions = trial.executions
            finding = finding._replace(detail=_run(check, trial))
    except PreparationError:
        raise
    except NotApplicableError as reason:
        finding = finding._replace(outcome=Outcome.NOT_APPLICABLE, detail=str(reason))
    except ViolationError as violation:
        finding = _violated(finding, violation, executions)
        shown = [*executions, *([violation.execution] if violation.execution else [])]
        if check.id != _TELLING and (why := _why_unable(shown, subject, state_dir, extent)):
            detail = f"its ordinary ADD fails: {why}"
            finding = Finding(check, subject, Outcome.NOT_EXAMINED, 0.0, detail, cause=_TELLING)
        elif words := lacking_root(shown):
            # A run that cannot examine the plugin at all must not look like a success.
            outcome = Outcome.ERROR if check.id == _TELLING else Outcome.NOT_EXAMINED
            finding = finding._replace(outcome=outcome, detail=f"needs real root: in a user namespace it says {words}")
    except Exception as error:  # noqa: BLE001 -- an unforeseen error of one check must not cost all other findings
        finding = _broken_off(finding, error, executions)
    return finding._replace(seconds=time.monotonic() - clock, transcript=tuple(executions))


def _run(check: Check, trial: Trial) -> str:
    """Run a check, and return its remark; a violation counts only if the network has room for its attachments."""
    try:
        return for_each_delegate(check.run, trial) or ""
    except ViolationError:
        if check.attachments > 1:
            demand_room(trial, check.attachments)
        raise


def _why_unable(executions: Sequence[Execution], subject: Subject, state_dir: Path, extent: Extent) -> str:
    """Return how an ordinary ADD ends on a new node, if one of these executions is an ADD that failed like that."""
    failed = [_words(each) for each in executions if each.verb == "ADD" and each.exit_code != 0]
    if not failed:
        return ""
    with Trial.on_new_node(subject, state_dir, extent) as trial:
        if trial.has("STATUS"):
            trial.status()  # as runtimes do; another check reports an ADD that depends on it
        try:
            ordinary = trial.add()
        except ViolationError:  # raised by the plugins before it
            return ""
    return expect.ending(ordinary) if ordinary.exit_code != 0 and _words(ordinary) in failed else ""


def _words(execution: Execution) -> bytes:
    return _NUMBERS.sub(b"#", execution.stdout or execution.stderr)


def _violated(finding: Finding, violation: ViolationError, executions: Sequence[Execution]) -> Finding:
    return finding._replace(
        outcome=Outcome.FAIL if finding.check.level in _BINDING else Outcome.WARN,
        detail=str(violation),
        sent=_sent([violation.execution] if violation.execution else executions),
        got=violation.got,
        expected=violation.expected,
    )


def _broken_off(finding: Finding, error: Exception, executions: Sequence[Execution]) -> Finding:
    return finding._replace(
        outcome=Outcome.ERROR,
        detail=f"{type(error).__name__}: {error}",
        sent=_sent(executions),
        got="".join(traceback.format_exception(error)).rstrip(),
    )


def _sent(executions: Sequence[Execution]) -> str:
    """Return the last execution, in a form that can be pasted into a shell."""
    if not executions:
        return ""
    execution = executions[-1]
    variables = [
        f"{name}={json.dumps(value)}"
        for name, value in sorted(execution.environ.items())
        if name.startswith(_SECRETLESS)
    ]
    stdin = execution.stdin.decode(errors="replace").replace("'", "'\\''")
    return f"{' '.join(variables)} {execution.path} <<< '{stdin}'"
