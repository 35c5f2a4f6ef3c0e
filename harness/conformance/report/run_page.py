"""The report of one run as one page of HTML without scripts, which loads nothing."""

import shlex
from functools import partial

from harness.conformance.examination import Examination
from harness.conformance.report.heading import circumstances, cut_short
from harness.conformance.report.notes import COMMANDS, notes
from harness.conformance.report.plugin_report import plugin_reports
from harness.conformance.report.transcript import transcript
from harness.conformance.report.verdict_line import verdict
from harness.conformance.report.wording import demand, facts, place
from harness.html_page import rendered
from harness.output import printable

_ROOM = "harness.conformance.report"


def run_page(examination: Examination) -> str:
    """Return the page. Everything that a plugin has said is escaped, and its control characters are visible."""
    return rendered(
        _ROOM,
        "run",
        verdict=verdict(examination.findings),
        incomplete=cut_short(examination),
        circumstances=list(circumstances(examination)),
        plugins=plugin_reports(examination),
        commands=COMMANDS,
        command=printable(shlex.join(examination.command)),
        demand=demand,
        facts=facts,
        notes=partial(notes, examination=examination),
        place=place,
        transcript=transcript,
    )
