"""Reports of one run in files: the circumstances, what is told of each finding, and hostile words in every form."""

import json
import re
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.cli.conformance import ENDINGS
from harness.conformance.engine.examination import Examination, ExaminedFile
from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.formats import FORMATS, write_reports
from harness.conformance.report.submission import write_folder
from harness.conformance.sentences import Level
from tests.findings import HOSTILE, KEPT, examination, execution, finding

TEXTS = [ending for ending in FORMATS if ending not in {".json", ".svg"}]
CALLED = (execution('{"ips": []}'), execution("", verb="DEL", exit_code=-9, timed_out=True))
FINDINGS = (
    finding("passes", transcript=CALLED),
    finding("habit", Outcome.WARN, level=Level.CONVENTION, expected="X", got="Y"),
    finding("fails", Outcome.FAIL, expected="A", got="B\nC", sent="S", transcript=CALLED),
    finding("known", Outcome.FAIL, level=Level.SHOULD, expected="A", got="B", known="issue 7"),
    finding("odd", Outcome.ERROR, detail="KeyError: 'ips'", got="Traceback"),
    finding("sometimes", Outcome.FAIL, expected="A", got="B", runs=6, failed_runs=1),
    finding("does-not-apply", Outcome.NOT_APPLICABLE, detail="this came with 1.1.0"),
    finding("unknown", Outcome.NOT_EXAMINED, detail="its ordinary ADD fails", cause="fails"),
)


def written(ending: str, *findings: Finding, **fields: Any) -> str:
    """A report in one form."""
    report = FORMATS[ending](examination(*(findings or FINDINGS), **fields))
    return report if isinstance(report, str) else report.decode()


def hostile() -> Examination:
    """A run in which everything that a plugin can influence is hostile."""
    fields: dict[str, Any] = {"detail": HOSTILE, "sent": HOSTILE, "got": HOSTILE, "expected": HOSTILE, "known": HOSTILE}
    told = [
        finding(f"c-{outcome.name.lower()}", outcome, transcript=(execution(HOSTILE),), **fields) for outcome in Outcome
    ]
    executable = ExaminedFile(HOSTILE, Path("/x"), "", HOSTILE)
    return examination(*told, cut_short=HOSTILE, command=("cni-harness", HOSTILE), files=(executable,))


@pytest.mark.parametrize("ending", TEXTS)
def test_each_form_has_the_circumstances_and_the_failures(ending: str) -> None:
    told = written(ending).replace("\\", "")

    for fact in (
        "ab" * 32,
        "CNI bridge plugin v1.2.3",
        "6.1.0-test",
        "2026-11-23T09:30:00+01:00",
        "core: fail",
        "A",
        "issue 7",
        "its ordinary ADD fails",
    ):
        assert fact in told, fact
    assert re.search(r"conformance --conf (?:'|&#39;)+my net.conflist", told)
    assert "cni-harness conformance --network testnet --plugin bridge --check fails" in told
    assert "SECRET" not in told


@pytest.mark.parametrize("ending", list(FORMATS))
def test_each_form_says_that_the_run_was_cut_short(ending: str) -> None:
    words = "incomplete" if ending == ".svg" else "interrupted"

    assert words not in written(ending)
    assert words in written(ending, cut_short="interrupted")


@pytest.mark.parametrize("ending", [*TEXTS, ".json"])
def test_each_form_has_the_node_that_stays_and_the_things_left_for_good(ending: str) -> None:
    left = {"bridge (interface), network testnet": ("link cf0", "sysctl net.ipv4.ip_forward=1")}
    kept = finding("fails", Outcome.FAIL, got="B", kept=KEPT)
    told = written(ending, kept, left_for_good=left).replace("\\", "").replace("&#39;", "'").replace('"', "")

    assert re.search(r"link cf0,?\s+(- )?sysctl net\.ipv4\.ip_forward=1", told)
    assert "/run/netns/conformance-1a2b-2" in told
    assert "cni-harness --state-dir '/state dir' conformance clean conformance-1a2b" in told
    nothing = written(ending, finding("fails", Outcome.FAIL, got="B"))
    assert "eft for good" not in nothing
    assert "enter" not in nothing.replace("text-align: center", "")


@pytest.mark.parametrize("ending", list(FORMATS))
def test_a_run_without_findings_is_reported_too(ending: str) -> None:
    report = FORMATS[ending](examination(cut_short="interrupted"))

    assert "nothing was examined" in (report if isinstance(report, str) else report.decode()) or ending == ".xml"


def test_the_json_document_is_as_its_schema_says() -> None:
    schema = json.loads(files("harness.conformance.report").joinpath("report.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)

    kept = examination(finding("fails", Outcome.FAIL, kept=KEPT))
    for run in (examination(*FINDINGS), hostile(), examination(), kept):
        report = FORMATS[".json"](run)
        assert [error.message for error in validator.iter_errors(json.loads(report))] == []
    assert not validator.is_valid(json.loads(written(".json")) | {"more": 1})


def test_json_document_has_transcripts_of_reported_checks() -> None:
    checks = {each["id"]: each for each in json.loads(written(".json"))["checks"]}

    first, second = checks["fails"]["transcript"]
    assert (first["stdin"], first["stdout"], first["exit_code"]) == ('{"cniVersion":"1.0.0"}', '{"ips": []}', 1)
    assert first["environment"] == {"CNI_COMMAND": "ADD"}
    assert (second["verb"], second["exit_code"]) == ("DEL", -9)
    assert checks["passes"]["transcript"] == []
    assert (checks["sometimes"]["runs"], checks["sometimes"]["failed_runs"]) == (6, 1)
    assert checks["known"]["known"] == "issue 7"
    assert checks["unknown"]["cause"] == "fails"


def test_junit_skips_known_failures_and_counts_a_cut_as_an_error() -> None:
    root = ET.fromstring(written(".xml", cut_short="interrupted"))  # noqa: S314 -- our own

    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("2", "2", "3")
    assert root[0].get("name") == "incomplete"
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert "interrupted" in error.attrib["message"]
    known = root.find("testsuite/testcase[@name='known']/skipped")
    assert known is not None
    assert known.get("message") == "known failure: issue 7"


class TestTap:
    """The Test Anything Protocol, as Perl's parser reads it."""

    @staticmethod
    def parsed(text: str, tmp_path: Path) -> list[dict[str, Any]]:
        """Return each line as the parser reads it."""
        file = tmp_path / "report.tap"
        file.write_text(text)
        script = """
            use JSON::PP; use TAP::Parser; use open qw(:std :utf8);
            my $parser = TAP::Parser->new({source => $ARGV[0]});
            while (my $each = $parser->next) {
              my %told = (type => $each->type, text => $each->as_string);
              if ($each->is_test) {
                $told{ok} = $each->is_actual_ok ? 1 : 0; $told{name} = $each->description;
                $told{skip} = $each->explanation if $each->has_skip;
                $told{todo} = $each->explanation if $each->has_todo;
              }
              print encode_json(\\%told), "\\n";
            }
            print encode_json({type => "errors", text => join("; ", $parser->parse_errors)}), "\\n";
        """
        run = subprocess.run(["perl", "-e", script, str(file)], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in run.stdout.splitlines()]

    @pytest.mark.parametrize(("outcome", "code"), [(Outcome.FAIL, 1), (Outcome.WARN, 0), (Outcome.PASS, 0)])
    def test_prove_fails_as_the_run_does(self, outcome: Outcome, code: int, tmp_path: Path) -> None:
        file = tmp_path / "report.tap"
        file.write_text(written(".tap", finding("one", outcome, expected="A", got="B"), finding("other")))

        run = subprocess.run(["prove", "--verbose", str(file)], capture_output=True, text=True, check=False)

        assert run.returncode == code, run.stdout + run.stderr
        assert "Tests=2" in run.stdout

    def test_each_finding_is_a_test_point(self, tmp_path: Path) -> None:
        lines = self.parsed(written(".tap"), tmp_path)

        points = [each for each in lines if each["type"] == "test"]
        assert [each["ok"] for each in points] == [1, 1, 0, 0, 0, 0, 1, 1]
        assert points[2]["name"] == "- testnet bridge interface: fails"
        assert [each.get("skip") for each in points[6:]] == [
            "this came with 1.1.0",
            "its ordinary ADD fails (see fails)",
        ]
        assert [each.get("todo") for each in points[2:4]] == [None, "issue 7"]
        assert lines[-1]["text"] == ""

    def test_nothing_that_a_plugin_said_is_a_test_point(self, tmp_path: Path) -> None:
        text = FORMATS[".tap"](hostile())
        assert isinstance(text, str)

        lines = self.parsed(text, tmp_path)

        assert [each["name"] for each in lines if each["type"] == "test"] == [
            f"- testnet bridge interface: c-{outcome.name.lower()}" for outcome in Outcome
        ]
        assert [each["type"] for each in lines if each["type"] not in {"comment", "test", "yaml"}] == [
            "version",
            "plan",
            "bailout",
            "errors",
        ]

    def test_tap_diagnostic_has_level_expectation_and_answer(self) -> None:
        block = re.search(r"- fails\n  ---\n(.*?)\n  \.\.\.\n", written(".tap").replace("interface: ", "- "), re.DOTALL)

        assert block is not None
        told = yaml.safe_load(block[1])
        assert (told["severity"], told["level"], told["expected"], told["got"]) == ("fail", "MUST", "A", "B\nC")
        assert told["duration_ms"] == 250


class Page(HTMLParser):
    """A browser's view of a page: its elements, which have to be closed in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_report_is_valid_and_loads_nothing() -> None:
    page = Page(written(".html"))

    assert page.open == []
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "img", "iframe"})
    assert [attrs["href"] for tag, attrs in page.elements if tag == "link"] == ["data:,"]
    targets = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    assert links == ["#plugin-1"]
    assert all(link[1:] in targets for link in links)
    assert '"ips": []' in page.text
    assert "1 of 6 runs failed" in page.text


def test_the_urgent_findings_come_first() -> None:
    order = [
        written(".html").index(f"</span> {name} <small>") for name in ("fails", "sometimes", "known", "odd", "habit")
    ]

    assert order == sorted(order)


@pytest.mark.parametrize("ending", list(FORMATS))
def test_hostile_words_are_harmless(ending: str) -> None:
    report = FORMATS[ending](hostile())

    told = report if isinstance(report, str) else report.decode()
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]", told) == []
    if ending in {".html", ".svg"}:
        assert "<b>" not in told
        assert "</script>" not in told
    if ending == ".html":
        assert "<b>`x`</b>" in Page(told).text
    if ending in {".svg", ".xml"}:
        ET.fromstring(told)  # noqa: S314 -- our own
    if ending == ".yaml":
        assert yaml.safe_load(told)["plugins"][0]["told"][0]["got"].startswith("</script><b>")


def test_markdown_has_hostile_words_in_fences_only() -> None:
    report = FORMATS[".md"](hostile())
    assert isinstance(report, str)

    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", report, flags=re.MULTILINE | re.DOTALL)

    assert not re.search(r"(?<!\\)</?(?:b|script)>", outside)
    assert [line for line in outside.splitlines() if "forged" in line and line.startswith(("ok", "## forged"))] == []


@pytest.mark.parametrize(
    ("findings", "colour", "said", "words"),
    [
        ((finding("fails", Outcome.FAIL),), "#b3261e", "fail", "works: partial; core: fail; extended: none"),
        ((finding("passes"),), "#8a6100", "pass", "works: partial; core: partial; extended: none"),
    ],
)
def test_the_badge_tells_the_verdict(findings: tuple[Finding, ...], colour: str, said: str, words: str) -> None:
    drawing = ET.fromstring(written(".svg", *findings))  # noqa: S314 -- our own
    space = {"s": "http://www.w3.org/2000/svg"}

    assert drawing.get("role") == "img"
    assert drawing.findtext("s:title", namespaces=space) == drawing.get("aria-label") == f"{said}: CNI 1.0.0 {words}"
    assert [each.text for each in drawing.iterfind(".//s:text", space)] == ["CNI 1.0.0", f"{said}: {words}"]
    assert colour in {each.get("fill") for each in drawing.iterfind(".//s:rect", space)}


def test_the_short_report_has_no_transcript_and_names_every_check() -> None:
    [plugin] = yaml.safe_load(written(".yaml"))["plugins"]

    assert plugin["pass"] == ["passes"]
    assert [each["check"] for each in plugin["told"]] == ["fails", "sometimes", "known", "odd", "habit"]
    assert plugin["told"][0] == {
        "check": "fails",
        "level": "MUST",
        "outcome": "fail",
        "expected": "A",
        "got": "B\nC",
        "reproduce": "cni-harness conformance --network testnet --plugin bridge --check fails",
    }
    assert plugin["not_applicable"] == {"this came with 1.1.0": ["does-not-apply"]}
    assert plugin["not_examined"] == {"its ordinary ADD fails (see fails)": ["unknown"]}


def test_a_project_has_a_folder_with_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed = finding("fails", Outcome.FAIL, got=f"{tmp_path}/bin/bridge is wrong")

    write_folder(examination(failed, command=("cni-harness", "--conf", f"{tmp_path}/a.conflist")), Path("reports/mine"))

    page, report = ((tmp_path / "reports/mine" / name).read_text() for name in ("README.md", "report.yaml"))
    assert str(tmp_path) not in page + report
    assert "got: bin/bridge is wrong" in report
    assert page.startswith("# mine\n")
    assert "## Reproduce\n" in page
    assert "cni-harness --conf a.conflist" in page


@pytest.mark.parametrize("ending", [".html", ".HTML", ".yaml"])
def test_the_ending_names_the_form(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"report{ending}"

    assert write_reports(examination(*FINDINGS), {path: ending}) == []

    assert path.read_text() == written(ending.lower())


def test_unknown_report_suffix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_reports(examination(*FINDINGS), {tmp_path / "report.txt": ".txt"})
    assert list(tmp_path.iterdir()) == []


def test_the_options_and_the_writers_know_the_same_endings() -> None:
    assert sorted(FORMATS) == list(ENDINGS)
