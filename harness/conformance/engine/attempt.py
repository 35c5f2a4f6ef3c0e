"""One run of one check, on a node of its own, which stays after a failure if the options say so."""

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions, HangingError, StoppedError
from harness.conformance.engine.discovery import for_each_delegate
from harness.conformance.engine.node_setup import PreparationError
from harness.conformance.engine.sequences import demand_room
from harness.conformance.engine.traffic import flowing
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import Finding, KeptNode, NotApplicableError, Outcome, ViolationError
from harness.conformance.subject import Subject
from harness.conformance.threshold import Threshold
from harness.libcni.execute import Execution
from harness.runtime.site import remove_kept
from harness.shell_command import one_line_command
from netlink.own_namespaces import in_user_namespace

ORDINARY_ADD: Final = "add-prints-result"
_REFUSALS: Final = ("operation not permitted", "permission denied")
"""EPERM and EACCES in the words of C libraries, and of Go in lower case (errno(3))."""
_QUOTED: Final = 300
_WAIT: Final = 3.0
"""Seconds on a quiet machine; an execution that takes longer has waited for something."""


def attempt(check: Check, subject: Subject, *, state_dir: Path, options: CheckOptions) -> Finding:
    """Run one check on a node of its own, which is then removed or kept; an unforeseen error is a finding, too.

    The finding's check has its level in the version of the configuration.
    Raises PreparationError, StoppedError.
    """
    clock = time.monotonic()
    version = subject.network.cni_version
    level = check.level_in(version)
    if level is None:
        why = f"the configuration is of version {version}, and this came with {check.since}"
        return Finding(check, subject, Outcome.NOT_APPLICABLE, 0.0, why)
    check = replace(check, level=level)
    finding = Finding(check, subject, Outcome.PASS, 0.0)
    executions: Sequence[Execution] = ()
    trial: Trial | None = None
    try:
        with Trial.on_new_node(subject, state_dir, options) as trial, kept_on_failure(trial):
            executions = trial.executions
            finding = finding._replace(detail=_run(check, trial))
    except (PreparationError, StoppedError):
        raise
    except NotApplicableError as reason:
        finding = finding._replace(outcome=Outcome.NOT_APPLICABLE, detail=str(reason))
    except ViolationError as violation:
        shown = [*executions, *([violation.execution] if violation.execution else [])]
        if words := _lacking_root(shown):
            # A run that cannot examine the plugin at all must not look like a success.
            outcome = Outcome.ERROR if check.id == ORDINARY_ADD else Outcome.NOT_EXAMINED
            finding = finding._replace(outcome=outcome, detail=f"needs real root: in a user namespace it says {words}")
        else:
            finding = _violated(finding, violation, executions, options.threshold)
    except HangingError as error:
        finding = not_examined(finding, error.cause, str(error))
    except Exception as error:  # noqa: BLE001 -- an unforeseen error of one check must not cost all other findings
        finding = _broken_off(finding, error, executions)
    kept = kept_node(trial) if trial is not None else None
    seconds = time.monotonic() - clock
    return finding._replace(seconds=seconds, transcript=tuple(executions), kept=kept)


def not_examined(finding: Finding, cause: str, why: str) -> Finding:
    """Return the finding of a check that cannot judge: another check is the cause, or this machine if it is empty."""
    detail = f"not examined, because of {cause or 'this machine'}: {why}"
    made = Finding(finding.check, finding.subject, Outcome.NOT_EXAMINED, finding.seconds, detail, cause=cause)
    return made._replace(transcript=finding.transcript)


def involves_time(violation: ViolationError, transcript: Sequence[Execution], slow: float) -> bool:
    """Tell whether a violation involves time on a machine that is `slow` times slower: a limit, or a plugin's wait."""
    shown = violation.execution or (transcript[-1] if transcript else None)
    return violation.is_of_time or (shown is not None and (shown.timed_out or shown.seconds > _WAIT * slow))


def _run(check: Check, trial: Trial) -> str:
    """Run a check, and return its remark; a violation counts only if the network has room for its attachments."""
    try:
        with flowing(trial) if trial.options.traffic else nullcontext():
            return for_each_delegate(check.run, trial) or ""
    except ViolationError:
        if check.attachments > 1:
            demand_room(trial, check.attachments)
        raise


def _violated(
    finding: Finding, violation: ViolationError, executions: Sequence[Execution], threshold: Threshold
) -> Finding:
    check = finding.check
    # The frames of all three would keep the node.
    violation.__context__ = violation.__cause__ = violation.__traceback__ = None
    return finding._replace(
        outcome=Outcome.FAIL if threshold.counts(check.id, check.level) else Outcome.WARN,
        detail=str(violation),
        sent=_sent([violation.execution] if violation.execution else executions),
        got=violation.got,
        expected=violation.expected,
        failed_runs=1,
        violation=violation,
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
    last = executions[-1]
    return one_line_command(last.path, last.environ, last.stdin)


def _lacking_root(executions: Sequence[Execution]) -> str:
    """Return the words of a failed execution that the kernel has refused something in a user namespace; empty for none.

    Such a plugin may be sound: it may set a kernel parameter of the whole machine, or give a file to another user.
    """
    if not in_user_namespace():
        return ""
    failed = (each for each in executions if each.exit_code != 0)
    said = ((each.stdout + b" " + each.stderr).decode(errors="replace") for each in failed)
    return next(
        (" ".join(text.split())[:_QUOTED] for text in said if any(map(text.lower().__contains__, _REFUSALS))), ""
    )


@contextmanager
def kept_on_failure(trial: Trial) -> Iterator[None]:
    """Have the trial's node stay if the block raises a violation or an unforeseen error, and its options say so."""
    try:
        yield
    except (NotApplicableError, StoppedError, HangingError):
        raise
    except Exception:
        if trial.options.keeps:
            trial.site.keep()
        raise


def kept_node(trial: Trial) -> KeptNode | None:
    """Return the trial's node, if it stays after the check."""
    site = trial.site
    if not site.is_kept:
        return None
    enter = (*trial.node.shell_words(), "/bin/sh")
    return KeptNode(site.name, site.state_dir, trial.node_netns, tuple(site.namespaces), enter)


def without_node(finding: Finding) -> Finding:
    """Remove the node that stayed because of a finding, if there is one, and return the finding. Raises OSError."""
    if finding.kept is None:
        return finding
    remove_kept(finding.kept.name, finding.kept.state_dir)
    return finding._replace(kept=None)
