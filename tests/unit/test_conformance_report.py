"""The report of the conformance suite: for people, as JSON, as JUnit's XML."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.conformance.catalogue import SPEC_VERSION, SUITE_VERSION
from harness.conformance.engine.examination import ExaminedFile
from harness.conformance.finding import Outcome, is_red
from harness.conformance.report.ci import junit
from harness.conformance.report.document import document
from harness.conformance.report.outline import heading, verdict
from harness.conformance.report.wording import paragraph, tally
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from tests.findings import HABIT, RULE, examination, finding, subject

PASSED = finding("passes")
FAILED = finding(
    "fails",
    Outcome.FAIL,
    seconds=1.5,
    detail="expected A; got B",
    expected="A",
    got="B",
    sent="CNI_COMMAND=DEL /nowhere/bridge <<< '{\"a\": 1}'",
)
WARNED = finding(
    "warns",
    Outcome.WARN,
    level=Level.CONVENTION,
    sentence=HABIT.id,
    detail="expected X; got Y",
    expected="X",
    got="Y",
    sent="Z",
)
BROKEN_OFF = finding(
    "breaks-off", Outcome.ERROR, detail="KeyError: 'ips'", got="Traceback:\n  one\nKeyError: 'ips'", sent="S"
)
INAPPLICABLE = finding("does-not-apply", Outcome.NOT_APPLICABLE, detail="this came with 1.1.0")
OTHER = finding("passes", subject=subject("host-local", Profile.IPAM))
FINDINGS = [PASSED, FAILED, WARNED, INAPPLICABLE, BROKEN_OFF, OTHER]


def test_the_document_has_every_check_and_counts_them() -> None:
    told = json.loads(json.dumps(document(examination(*FINDINGS))))

    assert told["summary"] == {
        "pass": 2,
        "fail": 1,
        "error": 1,
        "warn": 1,
        "n/a": 1,
        "not examined": 0,
        "known": 0,
        "must_failed": 1,
        "must_known": 0,
    }
    assert [each["id"] for each in told["checks"]] == [each.check.id for each in FINDINGS]
    assert told["checks"][1] == {
        "id": "fails",
        "network": "testnet",
        "plugin": "bridge",
        "profile": "interface",
        "title": "The demand of fails.",
        "document": "SPEC.md",
        "section": RULE.section,
        "sentence": RULE.text,
        "sentences": [RULE.id],
        "level": "MUST",
        "effect": "",
        "outcome": "fail",
        "detail": "expected A; got B",
        "sent": "CNI_COMMAND=DEL /nowhere/bridge <<< '{\"a\": 1}'",
        "got": "B",
        "expected": "A",
        "cause": "",
        "runs": 1,
        "failed_runs": 0,
        "known": "",
        "reproduce": "cni-harness conformance --network testnet --plugin bridge --check fails",
        "kept": None,
        "seconds": 1.5,
        "transcript": [],
    }
    assert [each["profile"] for each in told["checks"]] == ["interface"] * 5 + ["ipam"]


def test_failed_should_is_not_counted_as_must() -> None:
    told = document(examination(finding("fails", Outcome.FAIL, level=Level.SHOULD)))

    assert told["summary"] == {
        "pass": 0,
        "fail": 1,
        "error": 0,
        "warn": 0,
        "n/a": 0,
        "not examined": 0,
        "known": 0,
        "must_failed": 0,
        "must_known": 0,
    }


def test_a_must_that_is_known_is_counted_apart_and_said_in_the_verdict() -> None:
    known = finding("fails", Outcome.FAIL, known="issue 7")
    told = json.loads(json.dumps(document(examination(known))))

    assert (told["summary"]["must_failed"], told["summary"]["must_known"]) == (0, 1)
    assert told["verdict"] == "pass: CNI 1.0.0 works: partial; core: fail (known); extended: none"
    assert told["summary"]["known"] == 1
    assert not is_red([known])
    assert verdict([known, FAILED]) == "fail: CNI 1.0.0 works: partial; core: fail; extended: none"


@pytest.mark.parametrize(
    ("outcome", "level", "red"),
    [
        (Outcome.FAIL, Level.MUST, True),
        (Outcome.FAIL, Level.CONVENTION, True),
        (Outcome.WARN, Level.SHOULD, False),
        (Outcome.ERROR, Level.SHOULD, True),
        (Outcome.WARN, Level.CONVENTION, False),
        (Outcome.NOT_APPLICABLE, Level.MUST, False),
    ],
)
def test_failures_and_errors_of_any_level_are_red(outcome: Outcome, level: Level, red: bool) -> None:  # noqa: FBT001 -- a parameter
    assert is_red([PASSED, finding("other", outcome, level=level)]) is red


def test_failures_alone_are_shown_and_all_are_counted() -> None:
    told = json.loads(json.dumps(document(examination(*FINDINGS), only_failures=True)))

    assert [each["id"] for each in told["checks"]] == ["fails", "breaks-off"]
    assert told["summary"]["pass"] == 2


def test_detail_of_a_passed_check_is_in_junit() -> None:
    talking = finding("talks", detail="200 points, none leaked")

    case = ET.fromstring(junit(examination(talking))).find("*/testcase")  # noqa: S314 -- our own
    assert case is not None
    assert case.findtext("system-out") == "200 points, none leaked"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [({"pass": 3, "fail": 0, "warn": 1}, "3 pass, 1 warn"), ({"pass": 0}, "no checks")],
)
def test_counts_in_words(numbers: dict[str, int], said: str) -> None:
    assert tally(numbers) == said


def test_junit_has_a_testsuite_for_each_plugin() -> None:
    root = ET.fromstring(junit(examination(*FINDINGS)))  # noqa: S314 -- our own

    assert root.tag == "testsuites"
    assert root.attrib == {
        "name": "cni-harness conformance",
        "tests": "6",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "2.750",
    }
    bridge, host_local = root
    assert bridge.attrib == {
        "name": "testnet: bridge (interface)",
        "timestamp": "2026-11-23T09:30:00+01:00",
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "2.500",
    }
    assert (host_local.get("name"), host_local.get("tests")) == ("testnet: host-local (ipam)", "1")
    assert {each.attrib["name"]: each.attrib["value"] for each in bridge.iter("property")} == {
        "network": "testnet",
        "plugin": "bridge",
        "profile": "interface",
        "cniVersion": "1.0.0",
        "verdict": verdict(FINDINGS[:5]),
        "suite": f"{SUITE_VERSION}, for SPEC.md {SPEC_VERSION}",
        "fail on": "works",
        "source": "cni-harness 0.1.0, commit 1a2b3c4",
        "executable": f"/nowhere/bridge, sha256 {'ab' * 32}, CNI bridge plugin v1.2.3",
        "kernel": "6.1.0-test",
        "date": "2026-11-23T09:30:00+01:00",
        "command": "cni-harness conformance --conf 'my net.conflist'",
        "privileges": "root",
    }


def again(check: str) -> str:
    """The last line about a check that is told."""
    return f"reproduce: cni-harness conformance --network testnet --plugin bridge --check {check}"


def test_junit_tells_each_outcome_in_its_own_way() -> None:
    root = ET.fromstring(junit(examination(*FINDINGS)))  # noqa: S314 -- our own
    passed, failed, warned, inapplicable, broken_off = root[0].findall("testcase")

    assert passed.attrib == {"classname": "testnet.bridge.interface", "name": "passes", "time": "0.250"}
    assert list(passed) == []
    (failure,) = failed
    assert (failure.tag, failure.attrib) == ("failure", {"type": "MUST", "message": "The demand of fails."})
    assert failure.text == f"SPEC.md, {RULE.section}\n{paragraph(FAILED)}\n{again('fails')}"
    (output,) = warned
    assert output.tag == "system-out"
    assert output.text == f"warning (CONVENTION): runtimes, {HABIT.section}\n{paragraph(WARNED)}\n{again('warns')}"
    (skipped,) = inapplicable
    assert (skipped.tag, skipped.attrib) == ("skipped", {"message": "this came with 1.1.0"})
    (error,) = broken_off
    assert (error.tag, error.attrib) == ("error", {"type": "error", "message": "KeyError: 'ips'"})
    assert error.text == f"SPEC.md, {RULE.section}\n{paragraph(BROKEN_OFF)}\n{again('breaks-off')}"


def test_junit_is_valid_xml_for_any_plugin_output() -> None:
    nasty = "\x00\x1b[31m<&\"'\ud800\ufffe]]>"
    findings = [
        finding("fails", Outcome.FAIL, got=nasty, expected=nasty, sent=nasty, detail=nasty),
        finding("n", Outcome.NOT_APPLICABLE, detail=nasty),
    ]

    text = "".join(ET.fromstring(junit(examination(*findings))).itertext())  # noqa: S314 -- our own

    assert text.count("\\x00\\x1b[31m<&\"'\\ud800\\ufffe]]>") == 3


def test_the_heading_names_each_executable() -> None:
    files = tuple(ExaminedFile(name, Path("/nowhere", name), "ab" * 32, "") for name in ("bridge", "host-local"))

    told = [words for name, words in heading(examination(PASSED, files=files)) if name == "executable"]

    assert [f"/nowhere/bridge, sha256 {'ab' * 32}", f"/nowhere/host-local, sha256 {'ab' * 32}"] == told
