"""The reports of projects in reports/, and the table of docs/conformance-results.md that is made of them."""

from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import SPEC_VERSION
from harness.conformance.finding import Outcome
from harness.conformance.report.submission import is_unmodified, write_folder
from tests.cli import ROOT
from tests.findings import examination, finding, subject
from tools.reports import FOLDER, PAGE, ReportError, page_with_table, read_reports, table_of

COMMENTS = "before\n<!-- made by `make reports` -->\n{}<!-- end -->\nafter\n"
_WITHOUT_SEAL = {"1.1.0-1", "1.1.0-2"}
PROJECTS = sorted(path.parent for path in FOLDER.glob("*/report.yaml"))


def written(folder: Path) -> dict[str, dict[str, Any]]:
    """The reports of two projects, of which one has a plugin more."""
    failed = [finding("del-twice", Outcome.FAIL), finding("passes")]
    write_folder(examination(*failed), folder / "theirs")
    write_folder(examination(failed[1], finding("passes", subject=subject("ptp"))), folder / "ours")
    return read_reports(folder)


def test_the_table_has_a_column_for_each_project_ours_first(tmp_path: Path) -> None:
    folder = f"../reports/{SPEC_VERSION}"

    verdicts = "pass: CNI 1.0.0 works: partial; core: partial", "fail: CNI 1.0.0 works: fail; core: fail"
    bridge = "works: partial, core: partial, 0 of 0: 1 pass", "works: fail, core: fail, 0 of 0: 1 pass, 1 fail"
    assert list(table_of(written(tmp_path))) == [
        f"| plugin | [ours]({folder}/ours/README.md) | [theirs]({folder}/theirs/README.md) |",
        "| --- | --- | --- |",
        f"| **all** | {verdicts[0]}; extended: none | {verdicts[1]}; extended: none |",
        f"| bridge (interface), testnet | {bridge[0]} | {bridge[1]} |",
        f"| ptp (interface), testnet | {bridge[0]} | - |",
    ]


def test_the_table_replaces_the_one_before(tmp_path: Path) -> None:
    reports = written(tmp_path)
    page = page_with_table(COMMENTS.format("an old table\n"), reports)

    assert "an old table" not in page
    assert page == page_with_table(page, reports)
    assert (page.startswith("before\n"), page.endswith("<!-- end -->\nafter\n")) == (True, True)


def test_a_page_without_the_comments_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="comments"):
        page_with_table("no table here", written(tmp_path))


def test_another_file_of_that_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "report.yaml").write_text("kind: shopping list\n")

    with pytest.raises(ReportError, match=r"odd/report\.yaml: kind is not"):
        read_reports(tmp_path)


def test_the_page_has_the_table_of_the_reports() -> None:
    page = PAGE.read_text()

    assert page == page_with_table(page, read_reports(FOLDER)), "run `python -m tools.reports`"


@pytest.mark.parametrize("name", ["README.md", "report.yaml"])
def test_report_that_was_edited_is_told_from_one_that_was_not(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    assert is_unmodified(tmp_path / "theirs")

    path = tmp_path / "theirs" / name
    path.write_text(path.read_text().replace("fail", "pass"))

    assert not is_unmodified(tmp_path / "theirs")


def test_these_projects_have_reports() -> None:
    assert {"debian", "ours", "shell+perl"} <= {path.name for path in PROJECTS}


@pytest.mark.parametrize("project", PROJECTS, ids=[path.name for path in PROJECTS])
def test_report_is_small_complete_and_without_local_paths(project: Path) -> None:
    report = read_reports(FOLDER)[project.name]
    files = [project / "README.md", project / "report.yaml"]

    assert sorted(project.iterdir()) == files
    assert sum(path.stat().st_size for path in files) < 300_000
    assert report["cut_short"] == ""
    assert report["spec_version"] == SPEC_VERSION
    assert report["suite_version"] in _WITHOUT_SEAL or is_unmodified(project)
    assert "## Reproduce\n" in files[0].read_text()
    assert [path.name for path in files if str(ROOT) in path.read_text()] == []
