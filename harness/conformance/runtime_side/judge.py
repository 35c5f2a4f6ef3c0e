"""The judgement of a runtime: a finding for each check, made of records alone."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.conformance.finding import Outcome
from harness.conformance.runtime_side.demand import Observation, RuntimeCheck, runtime_checks
from harness.conformance.runtime_side.history import History
from harness.conformance.runtime_side.records import Records
from harness.conformance.sentences import Level

_BINDING = (Level.MUST, Level.SHOULD)


class RuntimeFinding(NamedTuple):
    """One check's finding about a runtime: `cases` were looked at, and `breaches` of them are not as demanded."""

    check: RuntimeCheck
    outcome: Outcome
    cases: int = 0
    breaches: tuple[Observation, ...] = ()

    @property
    def is_fatal(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST


def judge(records: Records, checks: Sequence[RuntimeCheck] = ()) -> list[RuntimeFinding]:
    """Return the findings of `checks`, or of all checks, in their order."""
    history = History(records)
    return [_finding(check, history) for check in checks or runtime_checks()]


def _finding(check: RuntimeCheck, history: History) -> RuntimeFinding:
    observations = list(check.look(history))
    breaches = tuple(each for each in observations if each.got)
    if breaches:
        outcome = Outcome.FAIL if check.level in _BINDING else Outcome.WARN
    else:
        outcome = Outcome.PASS if observations else Outcome.NOT_EXAMINED
    return RuntimeFinding(check, outcome, len(observations), breaches)
