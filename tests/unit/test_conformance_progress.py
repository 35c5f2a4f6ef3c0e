"""The progress of the conformance suite without a terminal."""

import pytest

from harness.cli.conformance_run import Progress
from harness.conformance.finding import Outcome
from tests.findings import finding
from tests.nodes import until


def test_a_line_now_and_then_tells_how_far_the_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def has_said(line: str) -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return line in said

    with Progress(interval=0.01) as progress:
        progress.show(finding("a"), 1, 9)
        until(lambda: has_said("1/9 checks of bridge (interface), 0 failed so far"))
        progress.show(finding("b", Outcome.FAIL), 2, 9)
        progress.show(finding("c", Outcome.FAIL, known="issue 7"), 3, 9)
        progress.show(finding("d", Outcome.ERROR), 4, 9)
        until(lambda: has_said("4/9 checks of bridge (interface), 2 failed so far"))

    has_said("")
    assert {line.partition(",")[0].partition("/")[0] for line in said} <= {"1", "2", "3", "4"}


def test_a_short_run_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.show(finding("a"), 1, 1)

    assert capsys.readouterr().err == ""


def test_remark_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.remark("bridge is left out")

        assert capsys.readouterr().err == "bridge is left out\n"
