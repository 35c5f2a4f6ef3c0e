"""The last screen of the report for people: the verdict, figures, and the places of other reports."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from harness.conformance.finding import Finding, Outcome, fatal
from harness.conformance.known_failures import KnownFailures
from harness.conformance.report.verdict_line import verdict
from harness.conformance.report.wording import by_subject, counts, tally
from harness.conformance.sentences import Level
from harness.output import printable

_SCREEN: Final = 24
"""The lines of a terminal."""
_MOST: Final = 3
"""Entries of a list, apart from the plugins, which get the room that is left."""


def summary(
    findings: Sequence[Finding],
    *,
    known: KnownFailures,
    cut_short: str = "",
    files: Sequence[Path] = (),
    width: int = 80,
) -> str:
    """Return the summary: the verdict and at most 23 lines of `width` columns; only a path may be longer.

    `cut_short` is the reason if the run ended early. `files` are the reports that were written.
    """
    head = [click.style(verdict(findings), fg="red" if fatal(findings) else "green", bold=True)]
    if cut_short:
        head += _item("cut short", printable(cut_short), width)
    tail = _item("all", tally(counts(findings)), width) if len(by_subject(findings)) > 1 else []
    for name, text in _figures(findings):
        tail += _item(name, text, width)
    if outdated := known.outdated_in_words(findings):
        tail += ["  known failures that pass now:", *_limited([f"    {line}" for line in outdated])]
    if kept := sum(finding.kept is not None for finding in findings):
        tail += _item("kept", f"{kept} nodes; `cni-harness conformance clean` removes them", width)
    if files:
        tail += ["  reports:", *_limited([f"    {path}" for path in files])]
    return "\n".join([*head, *_plugins(findings, _SCREEN - len(head) - len(tail), width), *tail])


def _plugins(findings: Sequence[Finding], room: int, width: int) -> list[str]:
    groups = [(f"{subject}, {printable(subject.network.name)}", found) for subject, found in by_subject(findings)]
    items = [_item(name, tally(counts(found)), width) for name, found in groups]
    if sum(map(len, items)) <= room:
        return [line for item in items for line in item]
    lines: list[str] = []
    number = 0
    while len(lines) + len(items[number]) < room:  # one line is for the rest
        lines += items[number]
        number += 1
    return [*lines, f"  … and {len(items) - number} more plugins"]


def _figures(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    for name, outcome in (("failed", Outcome.FAIL), ("warned", Outcome.WARN)):
        found = [finding for finding in findings if finding.outcome is outcome]
        levels = [(level, sum(finding.check.level is level for finding in found)) for level in Level]
        if found:
            known = sum(finding.known != "" for finding in found)
            words = [f"{number} {level}" for level, number in levels if number]
            yield name, ", ".join(words) + (f"; {known} of them known" if known else "")
    if flaky := [finding.check.id for finding in findings if finding.is_intermittent]:
        yield "intermittent", _named(flaky)
    if causes := {finding.cause: "" for finding in findings if finding.outcome is Outcome.NOT_EXAMINED}:
        number = sum(finding.outcome is Outcome.NOT_EXAMINED for finding in findings)
        yield "not examined", f"{number}, because of {_named([cause or 'other findings' for cause in causes])}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _limited(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST
    return [*lines[:_MOST], *([f"    … and {more} more"] if more > 0 else [])]


def _item(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", width, initial_indent="  ", subsequent_indent="    ")
