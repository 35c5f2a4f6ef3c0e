"""What became of the machines, in one JUnit file: none that failed is missing there."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET


class Outcome(NamedTuple):
    """What became of one machine."""

    name: str
    code: int
    """The exit code of its tests, or of what kept them from running."""
    junit: Path | None
    """What pytest wrote there, if it came so far."""
    words: str
    """Where its log is, or why there is none."""

    def __str__(self) -> str:
        """Say it in a line."""
        return f"{self.name}: exit code {self.code}, {self.words}"


def write_junit(outcomes: Iterable[Outcome], path: Path) -> None:
    """Put the results of the machines' tests into one file; a machine without results is an error there."""
    whole = ET.Element("testsuites")
    for outcome in outcomes:
        suites = _suites(outcome)
        for suite in suites:
            suite.set("name", f"vm.{outcome.name}")
        whole.extend(suites or [_error(outcome)])
    ET.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)


def _suites(outcome: Outcome) -> list[ET.Element]:
    try:
        return [] if outcome.junit is None else list(ET.parse(outcome.junit).getroot())  # noqa: S314 -- pytest's
    except (OSError, ET.ParseError):
        return []


def _error(outcome: Outcome) -> ET.Element:
    suite = ET.Element("testsuite", name=f"vm.{outcome.name}", tests="1", errors="1", failures="0", skipped="0")
    case = ET.SubElement(suite, "testcase", classname="vm", name=outcome.name)
    ET.SubElement(case, "error", message=str(outcome))
    return suite
