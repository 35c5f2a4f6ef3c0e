"""The project's own bench: rows and their verdicts on known samples, and the pages that show them."""

import json
from pathlib import Path

import pytest

from harness.bench.measurements import Measurements, Work
from harness.bench.suites import OURS, PLAIN, REFERENCE
from harness.output import TextTable
from tools.bench.pages import MarkerError, check_markers, filled, markdown, write_between_markers
from tools.bench.rows import Extent, judged, rows, table
from tools.bench.run import Run
from tools.bench.subjects import FLOOR

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recording() -> Measurements:
    """Ours take 0.40 of the reference's time and half of its CPU time, and twice the floor's time."""
    made = Measurements()
    for number in range(5):
        drift = 1 + number / 10
        for suite, seconds in ((OURS, 0.008), (REFERENCE, 0.020), (FLOOR, 0.004)):
            for verb in ("ADD", "DEL"):
                made.add(suite, Work(verb, PLAIN), seconds * drift)
                made.add(suite, Work(verb, PLAIN), 0.003 if suite == OURS else 0.006, cpu=True)
    return made


def test_rows_of_the_loops_that_were_run_are_judged_by_medians(recording: Measurements) -> None:
    results = judged(rows(Extent()), {"one": recording})

    assert [(each.row.work, round(each.ratio.value, 3), each.row.at_most, each.reached) for each in results] == [
        ("ADD", 0.4, 0.40, True),
        ("ADD: CPU", 0.5, 0.45, False),
        ("ADD, over the floor", 2.0, None, None),
        ("DEL, over the floor (a bare RTM_DELLINK)", 2.0, 0.5, False),
        ("DEL", 0.4, None, None),
        ("DEL: CPU", 0.5, None, None),
    ]
    assert (results[0].ours, results[0].ours_lower) == pytest.approx((0.0096, 0.0088))


def test_the_table_shows_medians_and_lower_quartiles(recording: Measurements) -> None:
    shown = table(judged(rows(Extent()), {"one": recording}))

    assert shown.rows[:3] == [
        ["ADD", "9.60", "8.80", "reference", "24.00", "22.00", "0.40", "0.40 to 0.40", "0.40", "yes"],
        ["ADD: CPU", "3.00", "3.00", "reference", "6.00", "6.00", "0.50", "0.50 to 0.50", "0.45", "**no**"],
        ["ADD, over the floor", "9.60", "8.80", "floor", "4.80", "4.40", "2.00", "2.00 to 2.00", "", ""],
    ]


def test_every_target_is_a_row() -> None:
    """The targets that this project has set itself; a row without one is only shown."""
    targets = {(row.work, row.at_most) for row in rows(Extent()) if row.at_most is not None}

    assert targets == {
        ("ADD", 0.40),
        ("ADD: CPU", 0.45),
        ("ADD with `ipMasq`", 0.25),
        ("DEL, over the floor (a bare RTM_DELLINK)", 0.5),
        ("DEL with `ipMasq`", 0.10),
        ("100 ADDs at once, cold node", 0.45),
        ("100 ADDs at once, cold node: CPU", 0.45),
        ("100 DELs at once", 0.60),
        ("100 DELs at once: CPU", 0.60),
        ("100 DELs at once with `ipMasq`", 0.10),
        ("VERSION", 0.65),
        ("VERSION: CPU", 0.70),
        ("DEL of a gone attachment, CNI_NETNS empty", 0.8),
        ("20 of these at once", 0.8),
        ("`cni-harness add` beside 1,000 pods, over none", 1.1),
        ("`cni-harness add` beside 1,000 pods, over none: CPU", 1.1),
        ("ADD with `ipMasq` beside 5,000 masqueraded, over none", 1.1),
        ("ADD with `ipMasq` beside 20,000 masqueraded, over none", 1.1),
        ("ADD of the chain of six", 0.4),
        ("DEL of the chain of six", 0.4),
        ("ADD of portmap with 32 ports beside 500 such pods, over none", 1.1),
        ("no server: VERSION, over bare Python", 1.6),
        ("no server: ADD, over bare Python", 6.5),
        ("no server: DEL of a gone attachment, five plugins", 1.2),
    }


def test_the_document_has_every_row(recording: Measurements) -> None:
    run = Run(judged(rows(Extent()), {"one": recording}), Extent(), {"load": 0.5})

    document = json.loads(json.dumps(run.document()))

    assert [each["reached"] for each in document["rows"]] == [True, False, None, False, None, None]
    assert document["extent"]["elements"] == [5000, 20000]


def test_markdown_has_figures_to_the_right() -> None:
    table = TextTable(("work", "ms"), [["ADD", "1.5"], ["DEL", ""]])

    assert markdown(table) == "| work | ms |\n| --- | ---: |\n| ADD | 1.5 |\n| DEL | - |"


PAGE = """before
<!-- bench: targets -->
old
<!-- /bench -->
between
<!-- bench: other -->
stays
<!-- /bench -->
after
"""


def test_tables_go_between_their_markers_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    page.chmod(0o640)

    write_between_markers(page, {"targets": "| new |", "costs": "| unplaced |"})

    assert page.read_text() == PAGE.replace("old", "| new |")
    assert page.stat().st_mode & 0o777 == 0o640


def test_filling_a_page_twice_changes_nothing() -> None:
    once = filled(PAGE, {"targets": "| \\1 new |"})

    assert filled(once, {"targets": "| \\1 new |"}) == once
    assert filled(once, {"targets": "old"}) == PAGE


def test_a_page_without_markers_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here")

    with pytest.raises(MarkerError, match=r"page\.md: no <!-- bench: NAME -->"):
        check_markers([page])


def test_our_own_page_has_places_for_known_tables_only() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    names = {"targets", "conditions", "latency", "crowds", "growth", "costs", "nodes"}

    replaced = filled(text, dict.fromkeys(names, "X"))

    assert replaced.count("\nX\n") == text.count("<!-- bench: ") == text.count("<!-- /bench -->") > 0
