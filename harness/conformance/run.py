"""A run of the suite: checks, each on a node of its own, and their findings."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

from harness.conformance import expect
from harness.conformance.attempt import attempt
from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions, StoppedError
from harness.conformance.examiner import Examiner
from harness.conformance.finding import Finding
from harness.conformance.subject import Profile, Subject
from harness.conformance.trial import Trial


def with_profile(subject: Subject, state_dir: Path, options: CheckOptions) -> Subject:
    """Find out the plugin's profile, unless it is known: an ADD shows it by the objects in the pod.

    Raises ViolationError if the ADD fails; OSError, SnapshotError, PreparationError, StoppedError.
    """
    if subject.profile is not None:
        return subject
    with Trial.on_new_node(subject, state_dir, replace(options, corrects_version=True)) as trial:
        before = trial.snapshot()
        result = expect.result(trial.add(), trial.version)
        made = before.sections["pod/links"].keys() != trial.snapshot().sections["pod/links"].keys()
        trial.delete()
    if made:
        return replace(subject, profile=Profile.INTERFACE)
    return replace(subject, profile=Profile.IPAM if result.ips and not result.interfaces else Profile.CHAINED)


def run_check(check: Check, subject: Subject, *, state_dir: Path, options: CheckOptions) -> Finding:
    """Run one check once, and judge it by itself: no other check is its cause.

    Raises PreparationError, StoppedError.
    """
    return attempt(check, subject, state_dir=state_dir, options=options).finding


def examine(  # noqa: PLR0913 -- the checks of a plugin, and how they are run
    subject: Subject,
    checks: Sequence[Check],
    *,
    state_dir: Path,
    options: CheckOptions,
    jobs: int = 1,
    repeat: int = 1,
    judge: Callable[[Finding], Finding] = lambda finding: finding,
    progress: Callable[[Finding, int, int], object] = lambda *_: None,
    found: list[Finding] | None = None,
) -> list[Finding]:
    """Run the checks that are for the subject's profile, `jobs` at once, `repeat` times each; return their findings.

    These are in the order of the checks. If one is not examined because of a check that was not wanted, that one's
    finding is among them, too. `judge` gets each finding, and returns it, marked if it is known. `progress` gets each
    finding, its number and the number of checks. `found` is extended by the findings, also by those of a run that is
    halted, or ends by an error. Raises PreparationError.
    """
    wanted = [check for check in checks if subject.profile in check.profiles]
    examiner = Examiner(subject, state_dir=state_dir, options=options, repeat=repeat)
    numbers = count(1)
    made: dict[str, Finding] = {}

    def run(check: Check) -> None:
        if options.stop.is_requested:
            return
        try:
            finding = made[check.id] = judge(examiner.find(check))
        except StoppedError:
            return
        progress(finding, next(numbers), len(wanted))

    findings: list[Finding] = []
    try:
        with ThreadPoolExecutor(jobs, thread_name_prefix="conformance") as pool:
            list(pool.map(run, wanted))
    finally:
        findings += [made[check.id] for check in wanted if check.id in made]
        unwanted = dict.fromkeys(finding.cause for finding in findings if finding.cause and finding.cause not in made)
        findings += map(judge, filter(None, map(examiner.known, unwanted)))
        if found is not None:
            found += findings
    return findings
