"""The forms of a report, by the ending of its file's name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.conformance.engine.examination import Examination
from harness.conformance.report.badge import to_svg
from harness.conformance.report.ci import junit, to_tap
from harness.conformance.report.document import to_json
from harness.conformance.report.markdown import run_markdown
from harness.conformance.report.page import run_page
from harness.conformance.report.submission import to_yaml
from harness.files import write_atomically
from harness.output import message_of

FORMATS: Final[Mapping[str, Callable[[Examination], str | bytes]]] = {
    ".html": run_page,
    ".json": to_json,
    ".md": run_markdown,
    ".svg": to_svg,
    ".tap": to_tap,
    ".xml": junit,
    ".yaml": to_yaml,
}
"""The writers by ending, in lower case."""


def write_reports(examination: Examination, files: Mapping[Path, str]) -> list[str]:
    """Write each file in the form of its ending, and return the messages of those that could not be written."""
    errors = []
    for path, ending in files.items():
        try:
            report = FORMATS[ending.lower()](examination)
            write_atomically(path, report.encode() if isinstance(report, str) else report)
        except OSError as error:
            errors.append(f"the report {path} is missing: {message_of(error)}")
    return errors
