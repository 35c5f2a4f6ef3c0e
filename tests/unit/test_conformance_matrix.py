"""The comparison of suites: its rows and columns, and its two pages."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.finding import Outcome
from harness.conformance.report.markdown import comparison_in_markdown
from harness.conformance.report.matrix import Matrix, matrix_of
from harness.conformance.report.page import comparison_page
from harness.conformance.reproduce import Arguments
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from tests.findings import HABIT, RULE, examination, finding, subject

IPAM = subject("host-local", Profile.IPAM)


@pytest.fixture
def matrix() -> Matrix:
    return matrix_of(
        {
            "ours": examination(
                finding("first"),
                finding("habit", sentence=HABIT.id, level=Level.CONVENTION),
                finding("last"),
                finding("first", subject=IPAM),
            ),
            "the|others": examination(
                finding("first", Outcome.FAIL, expected="A", got="<b>`B`</b>", sent="```S```"),
                finding("habit", Outcome.WARN, sentence=HABIT.id, level=Level.CONVENTION, expected="X", got="Y"),
                finding("last", Outcome.NOT_APPLICABLE, detail="why"),
            ),
        }
    )


def test_checks_are_together_by_section_and_plugins_apart(matrix: Matrix) -> None:
    bridge, host_local = matrix.chapters

    assert bridge.title == "bridge (interface), network testnet"
    assert [(title, [(row.check.id, row.outcomes) for row in rows]) for title, rows in bridge.sections.items()] == [
        (f"SPEC.md, {RULE.section}", [("first", ["pass", "fail"]), ("last", ["pass", "n/a"])]),
        (f"runtimes, {HABIT.section}", [("habit", ["pass", "warn"])]),
    ]
    assert [row.outcomes for row in host_local.rows] == [["pass", "-"]]
    assert [chapter.tallies() for chapter in matrix.chapters] == [
        ["3 pass", "1 fail, 1 warn, 1 n/a"],
        ["1 pass", "-"],
    ]


def test_failures_and_warnings_are_listed_by_suite(matrix: Matrix) -> None:
    told = [(row.check.id, [suite for suite, _ in findings]) for _, row, findings in matrix.told()]

    assert told == [("first", ["the|others"]), ("habit", ["the|others"])]


def test_check_that_raised_is_an_error_in_both_pages() -> None:
    matrix = matrix_of({"ours": examination(finding("odd", Outcome.ERROR, got="KeyError: 'ips'"))})

    assert "| odd | MUST | **error** |" in comparison_in_markdown(matrix)
    assert "got:\n\n```text\nKeyError: 'ips'\n```\n" in comparison_in_markdown(matrix)
    assert '<td>MUST</td><td class="error"><a href="#' in comparison_page(matrix)


def test_markdown_has_a_table_for_each_plugin(matrix: Matrix) -> None:
    lines = comparison_in_markdown(matrix).splitlines()

    assert lines[:6] == [
        "# Conformance of CNI plugins",
        "",
        "| plugin | ours | the\\|others |",
        "| --- | --- | --- |",
        "| bridge (interface), network testnet | 3 pass | 1 fail, 1 warn, 1 n/a |",
        "| host-local (ipam), network testnet | 1 pass | - |",
    ]
    assert "| first | MUST | pass | **fail** |" in lines
    assert "| habit | CONVENTION | pass | *warn* |" in lines
    assert "| last | MUST | pass | n/a |" in lines
    assert f"| SPEC.md, {RULE.section} |  |  |  |" in lines


def test_markdown_quotes_output_unchanged_in_fences(matrix: Matrix) -> None:
    page = comparison_in_markdown(matrix)

    assert "### bridge (interface), network testnet: first (MUST)\n\nThe demand of first.\n\n> " in page
    assert "got:\n\n```text\n<b>`B`</b>\n```\n" in page
    assert "sent:\n\n````text\n```S```\n````\n" in page


class Page(HTMLParser):
    """A browser's view of a page: its elements, which have to be closed in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_comparison_is_valid_and_loads_nothing(matrix: Matrix) -> None:
    text = comparison_page(matrix)
    page = Page(text)

    assert page.open == []
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "link", "img", "iframe"})
    assert re.findall(r"https?:|url\(|@import", text) == []
    targets = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    assert len(links) == 4
    assert all(link.startswith("#") and link[1:] in targets for link in links)


def test_html_shows_cells_and_output(matrix: Matrix) -> None:
    page = Page(comparison_page(matrix))
    cells = [attrs["class"] for tag, attrs in page.elements if tag == "td" and "class" in attrs]

    assert cells == ["pass", "fail", "pass", "none", "pass", "warn", "pass", "none"]
    assert "<b>`B`</b>" in page.text
    assert "the|others" in page.text


def test_without_failures_there_is_nothing_to_tell() -> None:
    matrix = matrix_of({"ours": examination(finding("first"))})

    assert "Failures" not in comparison_in_markdown(matrix)
    assert "Failures" not in comparison_page(matrix)


def test_pages_have_commands_early_ends_and_things_left_for_good() -> None:
    arguments = Arguments(bin_dirs=(Path("/my plugins"),), options=("--prepare", "/up link"))
    left = {"bridge (interface), network testnet": ("link cf0",)}
    failed = finding("first", Outcome.FAIL, got="B")
    matrix = matrix_of(
        {
            "ours": examination(failed, arguments=arguments, left_for_good=left),
            "theirs": examination(finding("first"), cut_short="interrupted"),
        }
    )

    for page in (comparison_in_markdown(matrix).replace("\\", ""), " ".join(Page(comparison_page(matrix)).text)):
        told = " ".join(page.replace("**", "").split())
        assert "--bin-dir '/my plugins' " in told
        assert "--check first --prepare '/up link'" in told
        assert "bridge (interface), network testnet: left for good by the first ADD: link cf0" in told
        assert "The run ended before its last check: interrupted." in told
