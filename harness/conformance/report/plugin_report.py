"""The findings about one plugin in the order of a report: the urgent ones first, the others by their reasons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.features import Standing, standing
from harness.conformance.report.heading import verdict
from harness.conformance.report.wording import TOLD, by_subject, counts, reason, tally
from harness.conformance.subject import Subject
from harness.output import printable

_ORDER = [Outcome.FAIL, Outcome.ERROR, Outcome.WARN]


@dataclass(frozen=True)
class PluginReport:
    """One plugin in its place, and all findings about it."""

    subject: Subject
    findings: Sequence[Finding]
    left_for_good: Sequence[str] = ()
    """The things that its first ADD leaves on the node for good: shared by all containers, and no fault."""

    @property
    def title(self) -> str:
        """The plugin in words: `bridge (interface), network my-network`."""
        return printable(self.subject.place)

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return verdict(self.findings)

    @property
    def standing(self) -> Standing:
        """The state of core and of the features."""
        return standing(self.findings)

    @property
    def tally(self) -> str:
        """The number of findings with each outcome, in words."""
        return tally(counts(self.findings))

    @property
    def told(self) -> list[Finding]:
        """The findings that are told in full: violations of a MUST, other failures, errors, warnings."""
        found = [finding for finding in self.findings if finding.outcome in TOLD or finding.is_intermittent]
        return sorted(found, key=_urgency)

    @property
    def passed(self) -> list[str]:
        """The IDs of the checks that passed."""
        return [finding.check.id for finding in self.findings if finding.outcome is Outcome.PASS]

    @property
    def not_examined(self) -> dict[str, list[str]]:
        """The IDs of the checks that were not examined, by their reason."""
        return _by_reason(finding for finding in self.findings if finding.outcome is Outcome.NOT_EXAMINED)

    @property
    def not_applicable(self) -> dict[str, list[str]]:
        """The IDs of the checks that do not apply, by their reason."""
        return _by_reason(finding for finding in self.findings if finding.outcome is Outcome.NOT_APPLICABLE)


def plugin_reports(examination: Examination) -> list[PluginReport]:
    """Return the reports of all plugins of a run, in their order."""
    return [
        PluginReport(subject, findings, tuple(map(printable, examination.left_for_good.get(subject.place, ()))))
        for subject, findings in by_subject(examination.findings)
    ]


def _urgency(finding: Finding) -> tuple[bool, int]:
    rank = _ORDER.index(finding.outcome) if finding.outcome in _ORDER else len(_ORDER)
    return not finding.violates_must, rank


def _by_reason(findings: Iterable[Finding]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for finding in findings:
        grouped.setdefault(reason(finding), []).append(finding.check.id)
    return grouped
