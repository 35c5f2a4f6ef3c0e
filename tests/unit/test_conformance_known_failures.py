"""Known failures: the file that a maintainer writes, and its effect on findings."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.conformance.catalogue import SUITE_VERSION
from harness.conformance.finding import Finding, Outcome, is_red
from harness.conformance.known_failures import KnownFailures, KnownFailuresError, known_failures_file
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from tests.findings import NETWORK, finding, subject

IDS = ["del-twice", "del-netns-gone", "gc-keeps", "version-result"]
FILE = """\
# our plugin
bridge  del-*   # issue 7, and #8

testnet/host-local gc-keeps # GC is planned
*-local  version-result  # Intermittent: a race
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "known.txt"


@pytest.fixture
def known(path: Path) -> KnownFailures:
    path.write_text(FILE)
    return KnownFailures.read(path, IDS)


def found(name: str, outcome: Outcome = Outcome.FAIL, plugin: str = "bridge", **fields: object) -> Finding:
    return finding(name, outcome, subject=subject(plugin, Profile.IPAM), **fields)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (found("del-twice"), "issue 7, and #8"),
        (found("del-netns-gone", Outcome.WARN), "issue 7, and #8"),
        (found("gc-keeps", plugin="host-local"), "GC is planned"),
        (found("version-result", plugin="host-local"), "Intermittent: a race"),
        (found("gc-keeps"), ""),
        (found("del-twice", plugin="host-local"), ""),
        (found("del-twice", Outcome.ERROR), ""),
        (found("del-twice", Outcome.PASS), ""),
        (found("del-twice", Outcome.NOT_EXAMINED), ""),
    ],
)
def test_a_failure_of_the_file_is_known(known: KnownFailures, failure: Finding, reason: str) -> None:
    assert known.marked(failure) == failure._replace(known=reason)


def test_the_network_counts_if_it_is_named(known: KnownFailures) -> None:
    elsewhere = subject("host-local", Profile.IPAM, network=replace(NETWORK, name="other"))

    assert known.marked(finding("gc-keeps", Outcome.FAIL, subject=elsewhere)).known == ""
    assert known.marked(finding("version-result", Outcome.FAIL, subject=elsewhere)).known != ""


def test_only_failures_that_are_not_known_are_red(known: KnownFailures) -> None:
    findings = [known.marked(each) for each in (found("del-twice"), found("version-result", plugin="host-local"))]

    assert not is_red(findings)
    assert is_red([*findings, known.marked(found("gc-keeps"))])
    assert is_red([known.marked(found("del-twice", Outcome.ERROR))])


@pytest.mark.parametrize(
    ("findings", "lines"),
    [
        ([found("del-twice", Outcome.PASS), found("del-netns-gone", Outcome.NOT_APPLICABLE)], [2]),
        ([found("del-twice", Outcome.PASS), found("del-netns-gone")], []),
        ([found("del-twice", Outcome.PASS), found("del-netns-gone", Outcome.ERROR)], []),
        ([found("del-twice", Outcome.PASS), found("del-netns-gone", Outcome.NOT_EXAMINED)], []),
        ([found("del-twice", Outcome.NOT_APPLICABLE)], []),
        ([found("gc-keeps", Outcome.PASS)], []),
        ([found("gc-keeps", Outcome.PASS, plugin="host-local")], [4]),
        ([found("version-result", Outcome.PASS, plugin="host-local")], []),
        ([], []),
    ],
)
def test_known_failure_that_passes_now_is_outdated(
    known: KnownFailures, path: Path, findings: list[Finding], lines: list[int]
) -> None:
    outdated = [entry for entry in known.entries if entry.line in lines]

    assert len(outdated) == len(lines)
    assert known.outdated_in_words(findings) == [
        f"{entry.plugin} {entry.check} passes now: remove line {entry.line} of {path}" for entry in outdated
    ]


def test_patterns_are_not_outdated_by_a_run_of_one_check(known: KnownFailures) -> None:
    assert known.outdated_in_words([found("del-twice", Outcome.PASS)], exact=True) == []
    assert known.outdated_in_words([found("gc-keeps", Outcome.PASS, plugin="host-local")], exact=True) != []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# fine\nbridge del-repeat # gone\n", ", line 2: there is no check del-repeat"),
        ("bridge xyz-* # none\n", ", line 1: there is no check xyz-*"),
        ("bridge del-twice\n", ", line 1: bridge del-twice: the reason is missing; write it behind a #"),
        ("bridge del-twice #  \n", ", line 1: bridge del-twice: the reason is missing; write it behind a #"),
        ("bridge del-twice # reason: \n", ", line 1: bridge del-twice: the reason is missing; write it behind a #"),
        ("del-twice # why\n", ", line 1: a plugin and a check are expected before the #, not 'del-twice'"),
        ("bridge del-twice MUST # why\n", ", line 1: a plugin and a check are expected before the #"),
    ],
)
def test_a_line_that_says_nothing_usable_is_named(path: Path, text: str, complaint: str) -> None:
    path.write_text(text)

    with pytest.raises(KnownFailuresError) as caught:
        KnownFailures.read(path, IDS)

    assert str(caught.value).startswith(f"{path}{complaint}")


def test_a_file_that_cannot_be_read_is_named(path: Path) -> None:
    with pytest.raises(KnownFailuresError, match=rf"^{path}: No such file or directory$"):
        KnownFailures.read(path, IDS)
    path.write_bytes(b"bridge del-twice # \xff\n")
    with pytest.raises(KnownFailuresError, match=rf"^{path}: not UTF-8$"):
        KnownFailures.read(path, IDS)


def test_written_file_of_known_failures_covers_its_findings(path: Path) -> None:
    failures = [
        found("del-twice", got="exit code 1:\n\x1b[31m{}", level=Level.SHOULD),
        found("gc-keeps", plugin="host-local", got="word " * 50),
        found("version-result", detail="none", runs=6, failed_runs=1),
    ]
    others = [found("del-netns-gone", Outcome.PASS), found("del-netns-gone", Outcome.WARN)]

    path.write_text(known_failures_file([*failures, *failures, *others]))

    assert path.read_text().splitlines()[3:] == [
        "# SHOULD: exit code 1: \\x1b[31m{}",
        "testnet/bridge del-twice  # reason:",
        f"# MUST: {('word ' * 50)[:100]}…",
        "testnet/host-local gc-keeps  # reason:",
        "# intermittent, 1 of 6 runs: MUST: none",
        "testnet/bridge version-result  # reason:",
    ]
    with pytest.raises(KnownFailuresError, match="line 5: testnet/bridge del-twice: the reason is missing"):
        KnownFailures.read(path, IDS)
    path.write_text(path.read_text().replace("# reason:\n", "# reason: issue 8\n"))
    known = KnownFailures.read(path, IDS)
    assert {each.reason for each in known.entries} == {"issue 8"}
    assert all(known.marked(each).known for each in failures)
    assert not any(known.marked(each).known for each in others)


def test_file_of_known_failures_has_the_version_of_its_suite(path: Path) -> None:
    path.write_text(known_failures_file([]))
    assert KnownFailures.read(path, IDS).suite_version == SUITE_VERSION
    path.write_text(path.read_text().replace(SUITE_VERSION, "1.1.0-2"))
    assert KnownFailures.read(path, IDS).suite_version == "1.1.0-2"
    path.write_text(FILE)
    assert KnownFailures.read(path, IDS).suite_version == SUITE_VERSION


def test_known_reasons_stay_in_the_next_file(known: KnownFailures) -> None:
    text = known_failures_file([known.marked(found("del-twice", got="exit code 1"))])

    assert text.endswith("\ntestnet/bridge del-twice  # issue 7, and #8\n")
