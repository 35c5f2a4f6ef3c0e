"""The report for people: a paragraph for each failure, error and warning, and a summary that fits a terminal."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from harness.conformance.finding import Finding, Outcome, is_red
from harness.conformance.known_failures import KnownFailures
from harness.conformance.report.outline import verdict
from harness.conformance.report.transcript import transcript
from harness.conformance.report.wording import (
    COLOURS,
    TOLD,
    by_subject,
    counts,
    demand,
    facts,
    is_shown,
    kept_facts,
    label,
    place,
    tally,
    wrapped,
)
from harness.conformance.reproduce import Arguments, command_of
from harness.conformance.sentences import Level
from harness.output import printable

_INDENT: Final = "  "
_ON_ONE_LINE: Final = ("sent", "repeat", "enter", "remove")
"""The facts that are pasted into a shell."""
_OWN: Final = ("runs", "expected")
"""The facts that findings with one answer do not share."""
_VARYING: Final = re.compile(
    r"\b(?:conformance-)?[0-9a-f]{8,}(?:-\d+)*\b|\bveth\w+|\b\d+(?:\.\d+){3}\b|\b\d+\.\d+(?= s\b)"
)
"""Parts of an answer that differ from node to node: IDs, names of links and namespaces, addresses, durations."""
_SCREEN: Final = 24
"""The lines of a terminal."""
_MACHINE: Final = "this machine"
"""The cause if no check is: it is busy, or there is no real root."""
_MOST: Final = 3
"""Entries of a list, apart from the plugins, which get the room that is left."""


def report(
    findings: Sequence[Finding],
    arguments: Arguments,
    *,
    every: bool = False,
    only_failures: bool = False,
    width: int = 100,
) -> str:
    """Return the report, in lines of `width` columns; click removes its colours on request.

    It has failures, errors and warnings in full; those with one answer share it. A known failure has one line, and so
    have all checks that were not examined for one cause. A pass is named if it has a remark. With `every`, all others
    are named too, known failures are told in full, and each paragraph ends with the calls of its check. Requests and
    the commands that repeat a check stand on one line of any length, so that they can be pasted into a shell.
    """
    blocks: list[str] = []
    for subject, found in by_subject(findings):
        blocks.append(click.style(f"{printable(subject.place)}: {tally(counts(found))}", bold=True))
        shown = [finding for finding in found if is_shown(finding, only_failures=only_failures)]
        if brief := [_line(finding) for finding in shown if _is_named(finding, every=every)]:
            blocks.append("\n".join(brief))
        waiting = {} if only_failures else _unexamined(found)
        for group in _by_answer([each for each in shown if each.outcome in TOLD and (every or not each.known)]):
            alone = _paragraph(group[0], arguments, width)
            lines = [*(_together(group, arguments, width) if len(group) > 1 else alone)]
            causes = [finding.check.id for finding in group if finding.check.id in waiting]
            lines += [_unexamined_line(waiting.pop(cause), cause) for cause in causes]
            blocks.append("\n".join(lines))
            told = {finding.check.id: transcript(finding) for finding in group} if every else {}
            # Not indented: here-documents would not end otherwise.
            blocks += [f"{_INDENT}The calls of {name}:\n{calls}" for name, calls in told.items() if calls]
        if waiting:
            blocks.append("\n".join(_unexamined_line(held, cause) for cause, held in waiting.items()))
    return "\n\n".join(blocks)


def _is_named(finding: Finding, *, every: bool) -> bool:
    if finding.outcome in TOLD:
        return bool(finding.known) and not every
    return every or (finding.outcome is Outcome.PASS and finding.detail != "")


def _line(finding: Finding) -> str:
    why = f": {printable(finding.detail)}" if finding.detail else ""
    if finding.known:
        why = f", known: {printable(finding.known)}"
    return f"{label(finding.outcome)} {finding.check.id} ({finding.check.level}){why}"


def _unexamined_line(findings: Sequence[Finding], cause: str) -> str:
    number = f"{len(findings)} check{'s' if len(findings) > 1 else ''} not examined"
    return f"{_INDENT}{click.style(number, fg=COLOURS[Outcome.NOT_EXAMINED])}, because of {cause or _MACHINE}"


def _paragraph(finding: Finding, arguments: Arguments, width: int) -> Iterator[str]:
    yield _title(finding)
    for text in (finding.check.title, demand(finding.check)):
        yield from wrapped(text, width, _INDENT)
    yield from _facts([*facts(finding), *_more(finding, arguments)], width, _INDENT)


def _together(findings: Sequence[Finding], arguments: Arguments, width: int) -> Iterator[str]:
    """Yield the lines about several findings with one answer, each with the facts that are its own."""
    first = findings[0]
    yield f"{label(first.outcome)} {click.style(f'{len(findings)} checks with the same answer', bold=True)}"
    yield from _facts([fact for fact in facts(first) if fact[0] not in _OWN], width, _INDENT)
    for finding in findings:
        yield _INDENT + _title(finding)
        yield from wrapped(finding.check.title, width, _INDENT * 2)
        own = [fact for fact in facts(finding) if fact[0] in _OWN]
        yield from _facts([*own, *_more(finding, arguments)], width, _INDENT * 2)


def _title(finding: Finding) -> str:
    check = finding.check
    name = click.style(check.id, bold=True)
    return f"{label(finding.outcome)} {name} ({check.level}; {place(check.enforced[0])})"


def _more(finding: Finding, arguments: Arguments) -> Iterator[tuple[str, str]]:
    if finding.known:
        yield "known", printable(finding.known)
    yield "repeat", printable(command_of(finding, arguments))
    yield from kept_facts(finding, arguments)


def _facts(named: Sequence[tuple[str, str]], width: int, indent: str) -> Iterator[str]:
    for name, fact in named:
        head = f"{indent}{name + ':':10}"
        for line in fact.split("\n"):
            yield from [head + line] if name in _ON_ONE_LINE else wrapped(line, width, head)
            head = " " * len(head)


def _by_answer(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings in groups with the same outcome and the same answer, in the order of each group's first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        answer = _VARYING.sub("#", finding.got)
        key = (finding.outcome, answer) if answer else (number,)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _unexamined(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the findings that were not examined, by the ID of the check that is the cause."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.outcome is Outcome.NOT_EXAMINED:
            groups.setdefault(finding.cause, []).append(finding)
    return groups


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
    head = [click.style(verdict(findings), fg="red" if is_red(findings) else "green", bold=True)]
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
    return "\n".join([*head, *_plugin_lines(findings, _SCREEN - len(head) - len(tail), width), *tail])


def _plugin_lines(findings: Sequence[Finding], room: int, width: int) -> list[str]:
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
        yield "not examined", f"{number}, because of {_named([cause or _MACHINE for cause in causes])}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _limited(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST
    return [*lines[:_MOST], *([f"    … and {more} more"] if more > 0 else [])]


def _item(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", width, initial_indent="  ", subsequent_indent="    ")
