"""The table of docs/conformance-results.md, made of the reports in reports/: `python -m tools.reports`.

`make reports` makes the reports, by the suite itself. Nobody edits them.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.conformance.catalogue import SPEC_VERSION
from harness.conformance.report.markdown import escaped, table
from harness.conformance.report.submission import KIND, REPORT
from harness.conformance.report.wording import tally
from harness.conformance.sentences import read_yaml

_ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = _ROOT / "reports" / SPEC_VERSION
"""A folder for each project."""
PAGE: Final = _ROOT / "docs" / "conformance-results.md"
_TABLE: Final = re.compile(r"(?<=<!-- made by `make reports` -->\n).*?(?=<!-- end -->)", re.DOTALL)
_NO_OUTCOMES: Final = frozenset({"known", "must_failed", "must_known"})
"""The figures of a summary that are no outcomes."""
_OURS: Final = "ours"
"""The project of the first column."""


class ReportError(Exception):
    """A report, or the page, is not as expected; the message names the file."""


def read_reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports below a folder by project, ours first. Raises ReportError."""
    reports = {}
    for path in sorted(folder.glob(f"*/{REPORT}")):
        report = read_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or report.get("kind") != KIND:
            raise ReportError(f"{path}: kind is not {KIND!r}")
        reports[path.parent.name] = report
    return dict(sorted(reports.items(), key=lambda item: (item[0] != _OURS, item[0])))


def table_of(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table: a row for each plugin in its network, a column for each project."""
    rows: dict[str, dict[str, str]] = {}
    for project, report in reports.items():
        for plugin in report["plugins"]:
            rows.setdefault(_place(plugin), {})[project] = _cell(plugin)
    links = [f"[{escaped(project)}](../reports/{SPEC_VERSION}/{project}/README.md)" for project in reports]
    verdicts = [escaped(str(report["verdict"])) for report in reports.values()]
    body = [[place, *(cells.get(project, "-") for project in reports)] for place, cells in rows.items()]
    yield from table(["plugin", *links], [["**all**", *verdicts], *body])


def _place(plugin: Mapping[str, Any]) -> str:
    return escaped(f"{plugin['plugin']} ({plugin['profile']}), {plugin['network']}")


def _cell(plugin: Mapping[str, Any]) -> str:
    states = list(plugin["extended"].values())
    numbers = {name: number for name, number in plugin["summary"].items() if name not in _NO_OUTCOMES}
    # Reports of the suites before 1.1.0-3 do not tell whether a plugin works.
    standing = ", ".join(f"{name}: {plugin[name]}" for name in ("works", "core") if name in plugin)
    return escaped(f"{standing}, {states.count('pass')} of {len(states)}: {tally(numbers)}")


def page_with_table(page: str, reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the table between its two comments. Raises ReportError if they are missing."""
    lines = "\n".join(table_of(reports))
    written, times = _TABLE.subn(lambda _: f"\n{lines}\n\n", page)
    if times != 1:
        raise ReportError(f"{PAGE}: the comments around the table are missing")
    return written


def main() -> int:
    """Write the table into the page."""
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), read_reports(FOLDER)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
