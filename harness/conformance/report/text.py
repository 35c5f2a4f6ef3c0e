"""The report for people: a line for each plugin, and a paragraph for each failure, error and warning."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import click

from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.wording import (
    TOLD,
    by_subject,
    counts,
    demand,
    facts,
    is_shown,
    place,
    printable,
    tally,
)

__all__ = ["report"]

_COLOURS: Final = {
    Outcome.PASS: "green",
    Outcome.FAIL: "red",
    Outcome.ERROR: "magenta",
    Outcome.WARN: "yellow",
    Outcome.NOT_APPLICABLE: "cyan",
    Outcome.NOT_EXAMINED: "cyan",
}
_INDENT: Final = "  "


def report(findings: Sequence[Finding], *, every: bool = False, only_failures: bool = False, width: int = 100) -> str:
    """Return the report, in lines of `width` columns; click removes its colours on request.

    It has failures, errors and warnings in full, and names a pass with a remark. With `every` it names all others.
    The request stands on one line of any length, so that it can be pasted into a shell.
    """
    groups = by_subject(findings)
    blocks = []
    for subject, found in groups:
        headline = f"{subject}, network {printable(subject.network.name)}: {tally(counts(found))}"
        blocks.append(click.style(headline, bold=True))
        shown = [finding for finding in found if is_shown(finding, only_failures=only_failures)]
        if brief := [_line(finding) for finding in shown if _is_named(finding, every=every)]:
            blocks.append("\n".join(brief))
        blocks += ["\n".join(_paragraph(finding, width)) for finding in shown if finding.outcome in TOLD]
    if len(groups) > 1:
        blocks.append(click.style(f"all: {tally(counts(findings))}", bold=True))
    return "\n\n".join(blocks)


def _is_named(finding: Finding, *, every: bool) -> bool:
    if finding.outcome in TOLD:
        return False
    return every or (finding.outcome is Outcome.PASS and finding.detail != "")


def _line(finding: Finding) -> str:
    why = f": {printable(finding.detail)}" if finding.detail else ""
    return f"{_label(finding)} {finding.check.id} ({finding.check.level}){why}"


def _paragraph(finding: Finding, width: int) -> Iterator[str]:
    check = finding.check
    yield f"{_label(finding)} {click.style(check.id, bold=True)} ({check.level}; {place(check.enforced[0])})"
    for text in (check.title, demand(check)):
        yield from _wrapped(text, width, _INDENT)
    for name, fact in facts(finding):
        head = f"{_INDENT}{name + ':':10}"
        for line in fact.split("\n"):
            # One line, to be pasted into a shell.
            yield from [head + line] if name == "sent" else _wrapped(line, width, head)
            head = " " * len(head)


def _wrapped(line: str, width: int, head: str) -> list[str]:
    below = " " * len(head)
    return textwrap.wrap(line, width, initial_indent=head, subsequent_indent=below, break_long_words=False)


def _label(finding: Finding) -> str:
    return click.style(f"{finding.outcome:4}", fg=_COLOURS[finding.outcome], bold=finding.outcome is Outcome.FAIL)
