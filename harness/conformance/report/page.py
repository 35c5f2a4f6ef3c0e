"""Pages of HTML that need no other file: the report of one run, and the comparison of suites."""

import shlex
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import Final

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.matrix import Chapter, CheckRow, Matrix
from harness.conformance.report.outline import circumstances, cut_short, plugin_reports, steps, verdict
from harness.conformance.report.transcript import transcript
from harness.conformance.report.wording import COMMANDS, TOLD, demand, facts, notes, place
from harness.output import printable

_TITLE: Final = "Conformance of CNI plugins"
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --pass: #1a7f37; --fail: #cf222e; --warn: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --pass: #3fb950; --fail: #ff7b72; --warn: #d29922; --quiet: #999; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
tr.section th { padding-top: 1rem; font-weight: 600; color: var(--quiet); }
td.pass { color: var(--pass); } td.none { color: var(--quiet); }
td.fail, td.fail a, td.error a { color: var(--fail); font-weight: 700; } td.warn, td.warn a { color: var(--warn); }
blockquote { margin: .5rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
cite { display: block; color: var(--quiet); font-style: normal; font-size: .9em; }
pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; padding: .6rem; background: #8881; }
dt { color: var(--quiet); } dd { margin: 0 0 .5rem; }
"""


def run_page(examination: Examination) -> str:
    """Return the page. Everything that a plugin has said is escaped, and its control characters are visible."""
    from harness.html_page import rendered  # Jinja2 takes long to import

    return rendered(
        "harness.conformance.report",
        "run",
        verdict=verdict(examination.findings),
        incomplete=cut_short(examination),
        circumstances=list(circumstances(examination)),
        plugins=plugin_reports(examination),
        commands=COMMANDS,
        steps=list(steps(examination)),
        command=printable(shlex.join(examination.command)),
        demand=demand,
        facts=facts,
        notes=partial(notes, arguments=examination.arguments),
        place=place,
        transcript=transcript,
    )


def comparison_page(matrix: Matrix) -> str:
    """Return the page; a cell that failed or warned leads to the words about it."""
    body = [f"<h1>{_TITLE}</h1>", *_summary(matrix)]
    for number, chapter in enumerate(matrix.chapters):
        body += [f'<h2 id="{number}">{_text(chapter.title)}</h2>', *_chapter(matrix, chapter)]
    told = list(_told(matrix))
    if told:
        body += ["<h2>Failures and warnings</h2>", *told]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_TITLE}</title>'
    top = ["<!DOCTYPE html>", '<html lang="en">', f"<head>{head}<style>{_STYLE}</style></head>", "<body>"]
    return "\n".join([*top, *body, "</body>", "</html>", ""])


def _summary(matrix: Matrix) -> Iterator[str]:
    yield f"<table><thead><tr><th>plugin</th>{_suites(matrix)}</tr></thead><tbody>"
    for number, chapter in enumerate(matrix.chapters):
        tallies = "".join(f"<td>{_text(tally)}</td>" for tally in chapter.tallies())
        yield f'<tr><td><a href="#{number}">{_text(chapter.title)}</a></td>{tallies}</tr>'
    yield "</tbody></table>"
    if remarks := [f"<li><b>{_text(suite)}</b>: {_text(text)}</li>" for suite, text in matrix.remarks()]:
        yield from ("<ul>", *remarks, "</ul>")


def _chapter(matrix: Matrix, chapter: Chapter) -> Iterator[str]:
    yield f"<table><thead><tr><th>check</th><th>level</th>{_suites(matrix)}</tr></thead><tbody>"
    for title, rows in chapter.sections.items():
        yield f'<tr class="section"><th colspan="{len(matrix.suites) + 2}">{_text(title)}</th></tr>'
        for row in rows:
            cells = "".join(_cell(chapter, row, outcome) for outcome in row.outcomes)
            name = f'<td title="{_text(row.check.title)}">{_text(row.check.id)}</td>'
            yield f"<tr>{name}<td>{row.check.level}</td>{cells}</tr>"
    yield "</tbody></table>"


def _cell(chapter: Chapter, row: CheckRow, outcome: str) -> str:
    if outcome in TOLD:
        return f'<td class="{outcome}"><a href="#{_anchor(chapter, row)}">{outcome}</a></td>'
    return f'<td class="{outcome if outcome == "pass" else "none"}">{outcome}</td>'


def _told(matrix: Matrix) -> Iterator[str]:
    for chapter, row, findings in matrix.told():
        title = f"{_text(chapter.title)}: {_text(row.check.id)} ({row.check.level})"
        yield f'<section id="{_anchor(chapter, row)}"><h3>{title}</h3><p>{_text(row.check.title)}</p>'
        cited = f"<cite>{_text(place(row.check.enforced[0]))}</cite>"
        yield f"<blockquote>{_text(demand(row.check))}{cited}</blockquote>"
        for suite, finding in findings:
            yield f"<h4>{_text(suite)}: {finding.outcome}</h4>"
            yield from _facts(finding, matrix.suites[suite])
        yield "</section>"


def _facts(finding: Finding, examination: Examination) -> Iterator[str]:
    yield "<dl>"
    for name, fact in (*facts(finding), *notes(finding, examination.arguments)):
        yield f"<dt>{name}</dt><dd><pre>{_text(fact)}</pre></dd>"
    yield "</dl>"


def _suites(matrix: Matrix) -> str:
    return "".join(f"<th>{_text(suite)}</th>" for suite in matrix.suites)


def _anchor(chapter: Chapter, row: CheckRow) -> str:
    return _text(f"{chapter.title}/{row.check.id}".replace(" ", "_"))


def _text(text: str) -> str:
    return escape(printable(text))
