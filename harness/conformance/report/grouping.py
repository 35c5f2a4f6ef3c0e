"""Findings of one plugin that belong together: with one answer, or not examined for one cause."""

import re
from collections.abc import Sequence
from typing import Final

from harness.conformance.finding import Finding, Outcome

_VARYING: Final = re.compile(
    r"\b(?:conformance-)?[0-9a-f]{8,}(?:-\d+)*\b|\bveth\w+|\b\d+(?:\.\d+){3}\b|\b\d+\.\d+(?= s\b)"
)
"""Parts of an answer that differ from node to node: IDs, names of links and namespaces, addresses, durations."""


def by_answer(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings in groups with the same outcome and the same answer, in the order of each group's first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        answer = _VARYING.sub("#", finding.got)
        key = (finding.outcome, answer) if answer else (number,)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def unexamined(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the findings that were not examined, by the ID of the check that is the cause."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.outcome is Outcome.NOT_EXAMINED:
            groups.setdefault(finding.cause, []).append(finding)
    return groups
