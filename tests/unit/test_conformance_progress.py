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


def test_rest_of_a_plugin_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def has_said(rest: str) -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return any(line.endswith(rest) for line in said)

    with Progress(interval=0.01) as progress:
        for number in range(1, 11):
            progress.show(finding("a"), number, 200)
        until(lambda: has_said("0 failed so far, about 0 s left"))
        progress.show(finding("a"), 200, 200)
        until(lambda: has_said("200/200 checks of bridge (interface), 0 failed so far"))


def test_a_short_run_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.show(finding("a"), 1, 1)

    assert capsys.readouterr().err == ""


def test_remark_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.remark("bridge is left out")

        assert capsys.readouterr().err == "bridge is left out\n"
