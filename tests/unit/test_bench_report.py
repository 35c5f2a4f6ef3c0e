"""From known samples to tables, to the JSON document and to pictures."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.bench.measurements import BenchExtent, Measurements, Memory, Work
from harness.bench.plot import PlotError, check_plots, plot
from harness.bench.report import Findings
from harness.bench.suites import MASQUERADED, OURS, PLAIN, REFERENCE, BenchSuite, SuiteSize, bytes_on_disk

DIRECT = "direct"


@pytest.fixture
def recording() -> Measurements:
    """Ours twice as fast as the reference, but for VERSION."""
    made = Measurements(overhead=[0.001, 0.001])
    for number in range(3):
        drift = 1 + number / 10
        for network in (PLAIN, MASQUERADED):
            for pods in (0, 5000):
                for verb in ("ADD", "DEL"):
                    made.add(OURS, Work(verb, network, pods=pods), 0.010 * drift * (1.1 if pods else 1))
                    made.add(REFERENCE, Work(verb, network, pods=pods), 0.020 * drift * (3 if pods else 1))
            made.add(DIRECT, Work("ADD", network), 0.060 * drift)
            made.add(OURS, Work("ADD", network, at_once=100, cold=True), 1.0 * drift)
            made.add(REFERENCE, Work("ADD", network, at_once=100, cold=True), 2.0 * drift)
        made.add(OURS, Work("VERSION"), 0.004 * drift)
        made.add(OURS, Work("STATUS"), 0.002 * drift)
        made.add(DIRECT, Work("VERSION"), 0.020 * drift)
        made.add(REFERENCE, Work("VERSION"), 0.002 * drift)
    for seconds in (0.005, 0.006, 0.011):
        made.add(OURS, Work("ADD", PLAIN), seconds, cpu=True)
    made.memory.append(Memory(PLAIN, OURS, 1 << 20, 50 << 20))
    return made


SUITES = [
    SuiteSize(BenchSuite(name, (Path("/bin"),)), plugins=3 << 20, code=code, form="binary")
    for name, code in ((OURS, 14 << 20), (DIRECT, 14 << 20), (REFERENCE, 0))
]


def test_json_document_holds_the_samples(recording: Measurements) -> None:
    document: Any = json.loads(json.dumps(Findings(recording, SUITES, [], BenchExtent(), {"load": 0.5}).document()))

    assert document["suites"][0] == {
        "name": OURS,
        "folders": ["/bin"],
        "served": False,
        "form": "binary",
        "plugins": 3 << 20,
        "code": 14 << 20,
    }
    (series,) = [
        each
        for each in document["series"]
        if (each["suite"], each["verb"], each["network"], each["pods"], each["at_once"]) == (OURS, "ADD", PLAIN, 0, 1)
    ]
    assert series["samples"] == pytest.approx([0.010, 0.011, 0.012])
    assert (series["count"], series["median"]) == (3, 0.011)
    ratios = {each["value"] for each in document["ratios"] if each["suite"] == OURS and each["verb"] == "ADD"}
    assert all(value == pytest.approx(0.5) or value == pytest.approx(0.55 / 3) for value in ratios)
    assert {each["to"] for each in document["ratios"]} == {REFERENCE}
    (cpu,) = document["cpu"]
    assert (cpu["verb"], cpu["network"], cpu["suite"], cpu["median"]) == ("ADD", PLAIN, OURS, 0.006)
    assert cpu["samples"] == [0.005, 0.006, 0.011]


def test_tables_show_medians_and_ratios_to_the_last_suite(recording: Measurements) -> None:
    tables = Findings(recording, SUITES, [], BenchExtent(), {}).tables()

    assert list(tables) == ["latency", "crowds", "growth", "costs"]
    latency = [row for row in tables["latency"].rows if row[:4] == [PLAIN, "ADD", "5,000", OURS]]
    assert latency == [[PLAIN, "ADD", "5,000", OURS, "3", "11.0", "12.1", "13.2", "13.2", "0.18"]]
    # The suite that was not among the crowds has no column there.
    assert tables["crowds"].headings == ["network", "verb", "at once", f"{OURS}, ms", f"{REFERENCE}, ms", "ratio"]
    assert tables["crowds"].rows[0] == [PLAIN, "ADD", "100", "1100.0", "2200.0", "0.50"]
    assert tables["growth"].rows[0] == [PLAIN, "ADD", "5,000", "1.10", "3.00"]
    assert tables["costs"].rows[0] == [PLAIN, OURS, "6.0", "", "1.0", "50.0", "3.0", "14.0"]


@pytest.mark.slow("matplotlib is slow to load; the numbers of the report are in make test")
def test_plots_are_drawn_as_svg_and_png(recording: Measurements, tmp_path: Path) -> None:
    paths = [tmp_path / "new" / "plot.svg", tmp_path / "plot.png"]
    check_plots(paths)

    plot(recording, [OURS, DIRECT, REFERENCE], [PLAIN, MASQUERADED], paths)

    svg = paths[0].read_text()
    assert all(text in svg for text in (OURS, DIRECT, REFERENCE, PLAIN, MASQUERADED))
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    again = tmp_path / "again.svg"
    plot(recording, [OURS, DIRECT, REFERENCE], [PLAIN, MASQUERADED], [again])
    assert again.read_text() == svg


def test_other_kinds_of_pictures_are_refused() -> None:
    with pytest.raises(PlotError, match=r"plot\.pdf: wanted the name of a file in \.svg or \.png"):
        check_plots([Path("plot.pdf")])


def test_files_with_several_names_count_once(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_bytes(b"x" * 100)
    (tmp_path / "two").hardlink_to(tmp_path / "folder" / "one")
    (tmp_path / "three").write_bytes(b"x" * 10)

    assert bytes_on_disk([tmp_path / "folder", tmp_path / "two", tmp_path / "three"]) == 110
