"""A survey that Ctrl-C or an error may end before its last check: its findings, and the reason."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.output import message_of

if TYPE_CHECKING:
    from harness.conformance.finding import Finding
    from harness.conformance.survey import Survey


class Surveyed(NamedTuple):
    """The findings of one suite. `error` is the one that ended the survey, `cut_short` the reason for an early end."""

    findings: Sequence["Finding"]
    left_for_good: Mapping[str, tuple[str, ...]]
    error: Exception | None = None
    cut_short: str = ""


def surveyed(survey: "Survey", bin_dirs: Sequence[Path], *, lenient: bool = False) -> Surveyed:
    """Return everything that was found, also if the survey was halted, or an error has ended it.

    Without an error, `cut_short` is empty: the caller knows who asked for the halt.
    """
    findings: list[Finding] = []
    failure = None
    try:
        survey.of(bin_dirs, lenient=lenient, found=findings)
    except Exception as error:  # noqa: BLE001 -- raised again after the report
        failure = error
    return Surveyed(findings, dict(survey.left_for_good), failure, message_of(failure) if failure else "")
