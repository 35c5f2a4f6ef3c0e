"""The report for people: paragraphs by cause, and the last screen."""

import re
from pathlib import Path

import click
import pytest

from harness.conformance.finding import Finding, KeptNode, Outcome
from harness.conformance.known_failures import KnownFailure, KnownFailures
from harness.conformance.report.text import report, summary
from harness.conformance.report.wording import paragraph
from harness.conformance.reproduce import Arguments
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from harness.libcni.execute import Execution
from harness.output import printable
from tests.findings import HABIT, RULE, finding, subject

NOTHING_KNOWN = KnownFailures(Path(), ())
REPEAT = "repeat:   cni-harness conformance --network testnet --plugin bridge --check"
PASSED = finding("passes")
FAILED = finding("fails", Outcome.FAIL, expected="A", got="B", sent="CNI_COMMAND=DEL /nowhere/bridge <<< '{}'")
WARNED = finding("warns", Outcome.WARN, level=Level.CONVENTION, sentence=HABIT.id, expected="X", got="Y", sent="Z")
BROKEN_OFF = finding("breaks-off", Outcome.ERROR, detail="KeyError", got="Traceback:\n  one\nKeyError", sent="S")
INAPPLICABLE = finding("does-not-apply", Outcome.NOT_APPLICABLE, detail="this came with 1.1.0")
OTHER = finding("passes", subject=subject("host-local", Profile.IPAM))
FINDINGS = [PASSED, FAILED, WARNED, INAPPLICABLE, BROKEN_OFF, OTHER]


def plain(findings: list[Finding], *, every: bool = False, only_failures: bool = False, width: int = 100) -> str:
    return click.unstyle(report(findings, Arguments(), every=every, only_failures=only_failures, width=width))


def unexamined(name: str, cause: str) -> Finding:
    return finding(name, Outcome.NOT_EXAMINED, cause=cause, detail=f"its ordinary ADD fails, as {cause} tells")


def test_failures_errors_and_warnings_are_shown_in_full() -> None:
    headline, failure, warning, error, other = plain(FINDINGS, width=1000).split("\n\n")

    assert headline == "bridge (interface), network testnet: 1 pass, 1 fail, 1 error, 1 warn, 1 n/a"
    assert failure.splitlines() == [
        f"fail fails (MUST; SPEC.md, {RULE.section})",
        "  The demand of fails.",
        f'  "{RULE.text}"',
        "  expected: A",
        "  got:      B",
        "  sent:     CNI_COMMAND=DEL /nowhere/bridge <<< '{}'",
        f"  {REPEAT} fails",
    ]
    assert warning.splitlines() == [
        f"warn warns (CONVENTION; runtimes, {HABIT.section})",
        "  The demand of warns.",
        f"  {HABIT.text}",
        "  expected: X",
        "  got:      Y",
        "  sent:     Z",
        f"  {REPEAT} warns",
    ]
    assert error.splitlines()[3:] == [
        "  got:      Traceback:",
        "              one",
        "            KeyError",
        "  sent:     S",
        f"  {REPEAT} breaks-off",
    ]
    assert other == "host-local (ipam), network testnet: 1 pass"


def test_failures_alone_can_be_shown() -> None:
    told = plain([*FINDINGS, unexamined("waits", "fails")], only_failures=True, every=True)

    assert "fail fails" in told
    assert "1 warn" in told
    assert "warns" not in told
    assert "waits" not in told


def test_findings_with_one_answer_share_it() -> None:
    findings = [
        finding("a", Outcome.FAIL, expected="E", got="veth12ab and 10.1.2.3 after 1.2 s", sent="first"),
        FAILED,
        finding("b", Outcome.FAIL, expected="F", got="veth9cd4 and 10.1.2.9 after 3.4 s", sent="second"),
        finding("c", Outcome.WARN, level=Level.MAY, expected="G", got="veth9cd4 and 10.1.2.9 after 3.4 s", sent="s"),
    ]

    _, together, alone, warning = plain(findings).split("\n\n")

    assert together.splitlines() == [
        "fail 2 checks with the same answer",
        "  got:      veth12ab and 10.1.2.3 after 1.2 s",
        "  sent:     first",
        f"  fail a (MUST; SPEC.md, {RULE.section})",
        "    The demand of a.",
        "    expected: E",
        f"    {REPEAT} a",
        f"  fail b (MUST; SPEC.md, {RULE.section})",
        "    The demand of b.",
        "    expected: F",
        f"    {REPEAT} b",
    ]
    assert alone.startswith("fail fails ")
    assert warning.startswith("warn c ")


def test_findings_with_different_answers_have_own_paragraphs() -> None:
    findings = [
        finding(name, Outcome.FAIL, got=got) for name, got in (("a", "code 1"), ("b", "code 2"), ("c", ""), ("d", ""))
    ]

    assert len(plain(findings).split("\n\n")) == 5


def test_unexamined_checks_are_one_line_under_their_cause() -> None:
    waiting = [unexamined(f"waits-{number}", "fails") for number in range(12)]
    findings = [PASSED, *waiting, FAILED, unexamined("lone", "gone")]

    _, failure, rest = plain(findings).split("\n\n")

    assert failure.splitlines()[0].startswith("fail fails ")
    assert failure.splitlines()[-1] == "  12 checks not examined, because of fails"
    assert rest == "  1 check not examined, because of gone"
    assert "waits-3" in plain(findings, every=True)


def test_a_known_failure_is_one_line_with_its_reason() -> None:
    known = FAILED._replace(known="issue 7")

    assert plain([known]).split("\n\n")[1:] == ["fail fails (MUST), known: issue 7"]
    assert "  known:    issue 7\n" in plain([known], every=True)
    assert "  expected: A\n" in plain([known], every=True)


def test_an_intermittent_failure_says_how_often() -> None:
    assert "  runs:     intermittent: failed 1 of 6 runs\n" in plain([FAILED._replace(runs=6, failed_runs=1)])


def test_passed_checks_are_listed_on_request() -> None:
    assert "\n\npass passes (MUST)\nn/a  does-not-apply (MUST): this came with 1.1.0\n\n" in plain(FINDINGS, every=True)


def test_the_calls_of_a_failed_check_follow_it_when_asked() -> None:
    execution = Execution(
        "bridge", "/x/bridge", "ADD", {"CNI_COMMAND": "ADD"}, b'{"a": 1}', b"out", b"", 1, 0.25, False
    )
    failed = FAILED._replace(transcript=(execution, execution))

    *_, calls, second = plain([failed], every=True).split("\n\n")

    assert calls.splitlines()[:3] == ["  The calls of fails:", "# 1. bridge ADD, no container", "CNI_COMMAND=ADD \\"]
    assert second.startswith("# 2. bridge ADD")
    assert "# 1. " not in plain([failed])
    assert "# 1. " not in plain([PASSED._replace(transcript=(execution,))], every=True)


def test_a_node_that_was_kept_can_be_entered_and_removed() -> None:
    node = KeptNode("run-1", Path("/state dir"), "/run/netns/run-1-1", ("/run/netns/run-1-2",), ("ip", "netns", "a b"))

    assert plain([FAILED._replace(kept=node)], width=200).splitlines()[-3:] == [
        "  node:     /run/netns/run-1-1, files in /state dir/nodes; containers: /run/netns/run-1-2",
        "  enter:    ip netns 'a b'",
        "  remove:   cni-harness --state-dir '/state dir' conformance clean run-1",
    ]


def test_the_remark_of_a_check_that_passed_is_shown() -> None:
    talking = finding("talks", detail="200 points, none leaked")

    assert plain([PASSED, talking, INAPPLICABLE]).splitlines()[2:] == ["pass talks (MUST): 200 points, none leaked"]


def test_each_difference_of_a_node_has_a_line_and_only_commands_a_long_one() -> None:
    got = "+ node: link veth1 (up; really); - pod: file a;b; ~ files: file c: 1 -> 2"
    (*_, first, second, third, sent, _) = plain(
        [finding("fails", Outcome.FAIL, got=got, expected="none", sent="s " * 200)], width=60
    ).splitlines()

    assert [first, second, third] == [
        "  got:      + node: link veth1 (up; really)",
        "            - pod: file a;b",
        "            ~ files: file c: 1 -> 2",
    ]
    assert len(sent) > 400


def test_lines_are_as_wide_as_the_terminal() -> None:
    told = plain([finding("fails", Outcome.FAIL, got="word " * 100, expected="word " * 50)], width=60)

    assert max(map(len, told.splitlines()[3:-1])) <= 60
    assert told.count("word") == 150


def test_control_characters_of_plugin_output_are_escaped() -> None:
    nasty = "a\x1b[2Jb\x00c\x9bd\ud800e\uffff\tf\u202eg\u2067h\u2028i"

    assert printable(nasty) == "a\\x1b[2Jb\\x00c\\x9bd\\ud800e\\uffff\tf\\u202eg\\u2067h\\u2028i"
    failed = finding("fails", Outcome.FAIL, got=nasty, expected=nasty, sent=nasty, known=nasty)
    assert "\x1b" not in plain([failed]) + plain([failed], every=True)
    assert "a\\x1b[2Jb" in paragraph(finding("n", Outcome.NOT_APPLICABLE, detail=nasty))


def summed(findings: list[Finding], **given: object) -> list[str]:
    return click.unstyle(summary(findings, **{"known": NOTHING_KNOWN, **given})).splitlines()  # type: ignore[arg-type]


def test_the_summary_has_the_verdict_first_and_then_figures() -> None:
    known = finding("should", Outcome.FAIL, level=Level.SHOULD, known="issue 7", runs=6, failed_runs=2)
    findings = [known, unexamined("waits", "fails"), *FINDINGS]

    verdict, *lines = summed(findings, cut_short="interrupted", files=[Path("/a/report.json"), Path("/b.xml")])

    assert re.fullmatch(r"fail: CNI 1\.0\.0 works: \w+; core: \w+; extended: .*", verdict)
    assert lines == [
        "  cut short: interrupted",
        "  bridge (interface), testnet: 1 pass, 2 fail, 1 error, 1 warn, 1 n/a, 1 not",
        "    examined",
        "  host-local (ipam), testnet: 1 pass",
        "  all: 2 pass, 2 fail, 1 error, 1 warn, 1 n/a, 1 not examined",
        "  failed: 1 MUST, 1 SHOULD; 1 of them known",
        "  warned: 1 CONVENTION",
        "  intermittent: should",
        "  not examined: 1, because of fails",
        "  reports:",
        "    /a/report.json",
        "    /b.xml",
    ]


def test_the_summary_of_a_sound_plugin_is_short() -> None:
    assert summed([PASSED])[1:] == ["  bridge (interface), testnet: 1 pass"]


def test_summary_lists_known_failures_that_pass_now() -> None:
    known = KnownFailures(Path("known.txt"), (KnownFailure(3, "bridge", "passes", "issue 7"),))

    assert summed([PASSED], known=known)[-2:] == [
        "  known failures that pass now:",
        "    bridge passes passes now: remove line 3 of known.txt",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_fits_a_screen(width: int) -> None:
    node = KeptNode("run-1", Path("/s"), "/n", (), ())
    findings = [
        each
        for number in range(30)
        for each in (
            finding(f"fails-{number}-{'x' * 20}", Outcome.FAIL, subject=subject(f"plugin-{number}"), kept=node),
            finding("passes", subject=subject(f"plugin-{number}"), runs=5, failed_runs=2),
            finding("warns", Outcome.WARN, level=Level.MAY, subject=subject(f"plugin-{number}")),
            finding("waits", Outcome.NOT_EXAMINED, cause=f"cause-{number}", subject=subject(f"plugin-{number}")),
        )
    ]
    known = KnownFailures(Path("k"), tuple(KnownFailure(n, f"plugin-{n}", "passes", "r") for n in range(30)))

    lines = summed(
        findings, cut_short="word " * 20, files=[Path(f"/{n}.xml") for n in range(30)], known=known, width=width
    )

    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert any(re.fullmatch(r"  … and \d+ more plugins", line) for line in lines)
    assert sum(line.startswith("  plugin-") for line in lines) >= 3
