"""The conformance suite as pytest items: three lines in a conftest, run by a pytest of their own."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli import AS_UNPRIVILEGED_USER, ROOT, bridge_network

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sudo

ITEM = "conftest.py::conformance::{}"
THREE_LINES = """
from cni_harness_pytest import conformance

conformance(bin_dir="build", conf="my.conflist")
"""


class Author:
    """A plugin author's project, with our plugins in its folder `build`."""

    def __init__(self, pytester: pytest.Pytester, bin_dir: Path) -> None:
        self.pytester = pytester
        self.bin_dir = bin_dir
        (pytester.path / "build").mkdir()
        for plugin in bin_dir.iterdir():
            (pytester.path / "build" / plugin.name).symlink_to(plugin)
        self.configure("my.conflist", bridge_network("net"))
        self.declare(THREE_LINES)
        pytester.makepyfile(test_own="def test_own(): pass")

    def configure(self, name: str, document: object) -> None:
        (self.pytester.path / name).write_text(json.dumps(document))

    def declare(self, text: str, below: str = ".") -> None:
        (self.pytester.path / below / "conftest.py").write_text(text)

    def spoil(self, name: str, script: str) -> None:
        """Put a plugin in the shell's language in the place of a sound one, which it ends in executing."""
        plugin = self.pytester.path / "build" / name
        plugin.unlink()
        plugin.write_text(f"#!/bin/sh\n{script}\nexec {self.bin_dir / name}\n")
        plugin.chmod(0o755)

    def run(self, *args: str, unprivileged: bool = False) -> pytest.RunResult:
        command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *args]
        return self.pytester.run(*(AS_UNPRIVILEGED_USER if unprivileged else []), *command)

    def collected(self, *args: str) -> list[str]:
        result = self.run("--collect-only", "-q", *args)
        assert result.ret == 0, result.stdout.str()
        return [line for line in result.outlines if "::" in line]


@pytest.fixture
def author(pytester: pytest.Pytester, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("CI", "BUILD_NUMBER"):  # by which pytest knows a CI, where it shows every failure once more
        monkeypatch.delenv(name, raising=False)
    return Author(pytester, direct_bin_dir)


def test_each_check_is_an_item(author: Author) -> None:
    items = author.collected()

    assert items[-1] == "test_own.py::test_own"
    assert ITEM.format("bridge[del-twice]") in items
    assert ITEM.format("host-local[del-twice]") in items
    assert ITEM.format("bridge[add-makes-interface]") in items
    assert ITEM.format("host-local[add-makes-interface]") not in items
    assert len(set(items)) == len(items) > 100


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_an_item_is_chosen_as_any_other(author: Author) -> None:
    assert author.collected("-k", "del-twice and bridge") == [ITEM.format("bridge[del-twice]")]
    assert author.collected(ITEM.format("host-local[version-result]")) == [ITEM.format("host-local[version-result]")]
    assert author.collected("-m", "not conformance") == ["test_own.py::test_own"]
    assert author.collected("test_own.py") == ["test_own.py::test_own"]


def test_no_items_are_collected_without_a_declaration(author: Author) -> None:
    author.declare("from cni_harness_pytest import conformance\n")

    assert author.collected() == ["test_own.py::test_own"]


def test_the_error_of_an_authors_configuration_is_shown(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import pytest\ndef pytest_configure(config): raise pytest.UsageError('no database here')")

    result = pytester.runpytest_subprocess()

    result.stderr.fnmatch_lines(["ERROR: no database here"])
    assert "KeyError" not in result.stderr.str()


def test_collecting_executes_no_plugin(author: Author) -> None:
    for name in ("bridge", "host-local"):
        author.spoil(name, f"touch {author.pytester.path}/executed")

    assert len(author.collected()) > 100
    assert not (author.pytester.path / "executed").exists()


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_passing_checks_leave_no_files(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = author.pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))

    result = author.run("-W", "error", "-k", "version-result or del-twice")

    result.assert_outcomes(passed=4, deselected=len(author.collected()) - 4)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_failure_has_the_words_of_the_report_and_no_traceback(author: Author) -> None:
    author.spoil("bridge", '[ "$CNI_COMMAND" = DEL ] && echo \'{"code": 123, "msg": "never heard of it"}\' && exit 1')

    result = author.run(ITEM.format("bridge[del-twice]"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ conformance::bridge[[]del-twice] _*",
            "del-twice (MUST; SPEC.md, 2 Execution Protocol / DEL)",
            '"Plugins MUST accept multiple `DEL` calls*',
            "expected: DEL succeeds, with exit code 0",
            'got:      exit code 1: *"never heard of it"*',
            "sent:     CNI_COMMAND=DEL CNI_ARGS=* <<< '{*}'",
            "repeat:   cni-harness conformance --bin-dir * --conf */my.conflist --plugin bridge --check del-twice",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*.py:[0-9]*")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_check_that_does_not_apply_is_skipped_with_the_reason(author: Author) -> None:
    author.configure("my.conflist", bridge_network("net", version="0.4.0"))

    result = author.run(ITEM.format("bridge[status-ready]"))

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*: *the configuration is of version 0.4.0, and this came with 1.1.0"])


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_a_convention_that_is_not_kept_is_a_warning(author: Author) -> None:
    author.spoil("bridge", '[ -z "$CNI_COMMAND" ] && exit 1')
    item = ITEM.format("bridge[about]")

    result = author.run(item)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines([item, "*ConformanceWarning: about (CONVENTION; skel, environment)"])
    result.stdout.fnmatch_lines(["*expected: *", "*got: *exit code 1*"])

    result = author.run("-W", "error", item)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*_ conformance::bridge[[]about] _*", "about (CONVENTION;*"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_a_known_failure_is_expected_and_warns_when_it_passes(author: Author) -> None:
    author.spoil("bridge", '[ "$CNI_COMMAND" = CHECK ] && exit 1')
    author.declare(THREE_LINES.replace(")", ', plugins=["bridge"], known_failures="known.txt")'))
    (author.pytester.path / "known.txt").write_text(
        "bridge check-after-* # CHECK is planned\nbridge del-twice # was so once\nbridge version-result # too\n"
    )

    result = author.run("-k", "check-after-add or del-twice")

    result.assert_outcomes(xfailed=1, passed=1, warnings=1)
    result.stdout.fnmatch_lines(["XFAIL conftest.py::conformance::bridge[[]check-after-add] - CHECK is planned"])
    result.stdout.fnmatch_lines(["*ConformanceWarning: bridge del-twice passes now: remove line 2 of */known.txt"])
    result.stdout.no_fnmatch_line("*version-result*")


def test_checks_are_chosen_by_pattern_and_level(author: Author) -> None:
    chosen = ', plugins=["bridge"], checks=["del-*"], skip=["*-netns-*"], level="MUST")'
    author.declare(THREE_LINES.replace(")", chosen))

    items = [item for item in author.collected() if "bridge" in item]

    assert ITEM.format("bridge[del-twice]") in items
    assert all("[del-" in item and "-netns-" not in item for item in items)
    assert ITEM.format("bridge[del-nothing-known]") not in items  # a SHOULD


def test_check_that_raises_is_a_failed_item(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # where the tools are not that the check needs
    author.declare(THREE_LINES.replace(")", ', plugins=["bridge"], profile="interface")'))

    result = author.run(ITEM.format("bridge[check-interface-missing]"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FileNotFoundError: * 'nsenter'"])


def test_a_plugin_that_is_not_there_is_named(author: Author) -> None:
    (author.pytester.path / "build" / "bridge").unlink()

    result = author.run(ITEM.format("bridge[version-result]"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f'*no executable "bridge" (searched: {author.pytester.path}/build)'])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_a_plugin_of_another_kind_than_its_place_tells_has_to_be_declared(author: Author) -> None:
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]]}
    author.configure("my.conf", {"cniVersion": "1.0.0", "name": "alone", "type": "host-local", "ipam": ipam})
    lines = THREE_LINES.replace("my.conflist", "my.conf")
    author.declare(lines)

    result = author.run("-k", "version-result")

    result.assert_outcomes(failed=1, deselected=len(author.collected()) - 1)
    result.stdout.fnmatch_lines(['host-local is of the profile ipam: say so, profile="ipam"'])

    author.declare(lines.replace(")", ', profile="ipam")'))

    author.run("-k", "version-result").assert_outcomes(passed=1, deselected=len(author.collected()) - 1)


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_nodes_are_prepared(author: Author) -> None:
    author.spoil("bridge", '[ "$CNI_COMMAND" != ADD ] || ip link show uplink0 >/dev/null || exit 1')
    prepare = author.pytester.path / "prepare"
    prepare.write_text("#!/bin/sh\nexec ip link add uplink0 type veth\n")
    prepare.chmod(0o755)
    author.run(ITEM.format("bridge[del-twice]")).assert_outcomes(skipped=1)

    author.declare(THREE_LINES.replace(")", ', prepare="prepare")'))

    author.run(ITEM.format("bridge[del-twice]")).assert_outcomes(passed=1)
    prepare.write_text("#!/bin/sh\necho none today\nexit 2\n")
    result = author.run(ITEM.format("bridge[del-twice]"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*--prepare {prepare}: exit code 2: none today"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_several_lists_have_own_names_and_paths_relative_to_the_conftest(author: Author) -> None:
    below = author.pytester.mkdir("below")
    author.configure("below/other.conflist", bridge_network("other"))
    author.declare("")
    declared = 'conformance(bin_dir=["none", "../build"], conf="other.conflist", checks=["version-result"], {})\n'
    author.declare(
        "from cni_harness_pytest import conformance\n"
        + declared.format('name="one", plugins=["bridge"]')
        + declared.format('name="two", profile="ipam", watch=["files"], timeout=900'),
        below="below",
    )

    result = author.run("-v")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["below/conftest.py::one::bridge[[]version-result] PASSED*", "below/conftest.py::two::host-local[[]version-*"]
    )
    assert sorted(path.name for path in below.iterdir() if path.name != "__pycache__") == [
        "conftest.py",
        "other.conflist",
    ]


@pytest.mark.mostly_slow(4, "each declaration; a part is in make test")
@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ('conformance(bin_dir="build", conf="none")', "*none*No such file*"),
        ('conformance(bin_dir="build", conf="my.conflist", plugins=["ptp"])', "plugins: there is no ptp"),
        ('conformance(bin_dir="build", conf="my.conflist", checks=["none"])', "checks: there is no none"),
        ('conformance(bin_dir="build", conf="my.conflist", profile="none")', "profile: there is no none"),
        ('conformance(bin_dir="build", conf="my.conflist", skip=["none-*"])', "skip: there is no none-*"),
        ('conformance(bin_dir="build", conf="my.conflist", level="must")', "level: there is no must"),
        (
            'conformance(bin_dir="build", conf="my.conflist", known_failures="none.txt")',
            "*/none.txt: No such file or directory",
        ),
        (
            '[conformance(bin_dir="build", conf="my.conflist") for _ in "ab"]',
            "*conftest.py: conformance() twice with the name 'conformance': give one another name=",
        ),
    ],
)
def test_invalid_declarations_are_errors(author: Author, declared: str, complaint: str) -> None:
    author.declare(f"from cni_harness_pytest import conformance\n{declared}\n")

    result = author.run()

    assert result.ret != 0
    shown = pytest.LineMatcher(result.outlines + result.errlines)
    shown.fnmatch_lines([complaint])


def test_a_declaration_outside_of_a_conftest_is_an_error(author: Author) -> None:
    author.declare("")
    author.pytester.makepyfile(test_own=THREE_LINES)

    result = author.run()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_own.py: conformance() is for a conftest.py"])


@pytest.mark.slow("runs of a whole pytest; failures and skips as items are in make test")
def test_under_xdist_each_item_runs_once(author: Author) -> None:
    author.spoil("bridge", '[ "$CNI_COMMAND" = DEL ] && exit 1')

    result = author.run("-n", "2", "-k", "version-result or del-twice or test_own")

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["FAILED conftest.py::conformance::bridge[[]del-twice]*"])


def test_junit_has_the_items(author: Author) -> None:
    author.run("--junitxml", "junit.xml", "-k", "version-result")

    cases = ET.parse(author.pytester.path / "junit.xml").getroot().iter("testcase")  # noqa: S314 -- our own
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("conftest.conformance", "bridge[version-result]"),
        ("conftest.conformance", "host-local[version-result]"),
    ]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    ("options", "reason"),
    [([], "needs root, and there is no sudo here"), (["-p", "no:sudo"], "needs root: it makes network namespaces")],
    ids=["sudo marker", "without"],
)
def test_items_without_root_are_skipped_with_the_reason(
    author: Author, monkeypatch: pytest.MonkeyPatch, options: list[str], reason: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    result = author.run("-k", "version-result", *options, unprivileged=True)

    result.assert_outcomes(skipped=2, deselected=len(author.collected()) - 2)
    result.stdout.fnmatch_lines([f"SKIPPED*: {reason}"])
