"""`@pytest.mark.sudo`, run by root and by somebody else.

Somebody else is user 65534 with the capability to become root, as the set-user-ID bit gives it to sudo; and
with the right to read this tree, wherever it is.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sudo

Run = Callable[..., pytest.RunResult]

CAPABILITIES = "+setuid,+setgid,+dac_override"
AS_UNPRIVILEGED_USER = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
AS_UNPRIVILEGED_USER += [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"]

LOGGING = '#!/bin/sh\nprintf "%s\\n" "$*" >> "${0%/*}/log"\n'
WILLING = (
    LOGGING
    + """
while [ "${1#-}" != "$1" ]; do shift; done
exec /usr/bin/env -i PATH=/usr/bin:/bin /usr/bin/setpriv --reuid=0 --regid=0 --clear-groups -- "$@"
"""
)
# Root's files are for root alone here; somebody without any capability is to read what became of the test nonetheless.
SECRETIVE = """#!/bin/sh
PATH=/usr/bin:/bin
while [ "${1#-}" != "$1" ]; do shift; done
(umask 077 && exec env -i setpriv --reuid=0 --regid=0 --clear-groups -- "$@")
code=$?
for word; do
    case $word in PYTEST_SUDO_OUTCOME=*)
        setpriv --inh-caps=-all --ambient-caps=-all -- cat "${word#*=}" >>"${0%/*}/read" || exit 99 ;;
    esac
done
exit $code
"""
POWERLESS = LOGGING + 'while [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n'
REFUSING = LOGGING + 'echo "sudo: a password is required" >&2\nexit 1\n'


class Sudo:
    """The folder that is PATH, and the sudo in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, script: str) -> None:
        sudo = self.folder / "sudo"
        sudo.write_text(script)
        sudo.chmod(0o755)

    def calls(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def sudo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Sudo:
    sudo = Sudo(pytester.path / "path")
    monkeypatch.setenv("PATH", f"{sudo.folder}:/nonexistent")
    for name in ("CI", "BUILD_NUMBER"):  # by which pytest knows a CI, where it shows every failure once more
        monkeypatch.delenv(name, raising=False)
    return sudo


@pytest.fixture
def run_unprivileged(pytester: pytest.Pytester) -> Run:
    def run(*args: str) -> pytest.RunResult:
        return pytester.run(*AS_UNPRIVILEGED_USER, sys.executable, "-m", "pytest", "-ra", *args)

    return run


def test_root_runs_the_test_itself(pytester: pytest.Pytester, sudo: Sudo) -> None:
    sudo.install(REFUSING)
    pytester.makepyfile("import pytest\n@pytest.mark.sudo\ndef test_it(): pass")

    result = pytester.runpytest_subprocess("--strict-markers")

    result.assert_outcomes(passed=1)
    assert sudo.calls() == []


@pytest.mark.slow("whole runs of pytest; single tests under sudo are in make test")
def test_marked_tests_without_root_run_as_root_with_their_fixtures(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run
) -> None:
    sudo.install(WILLING)
    pytester.makepyfile(
        """
        import os, pytest
        @pytest.fixture
        def made_as(): return os.geteuid()
        @pytest.mark.sudo
        @pytest.mark.parametrize("name", ["a b", "p/q::r", "[z]"])
        def test_marked(name, made_as): assert (made_as, os.geteuid()) == (0, 0)
        class TestGroup:
            pytestmark = pytest.mark.sudo
            def test_in_a_class(self, made_as): assert made_as == 0
        def test_unmarked(made_as): assert made_as == 65534
        """
    )

    result = run_unprivileged("--strict-markers")

    result.assert_outcomes(passed=5)
    first, *runs = sudo.calls()
    assert first == "-n true"
    assert [call.split(f"{pytester.path}/")[-1].split("::", 1)[1] for call in runs] == [
        "test_marked[a b]",
        "test_marked[p/q::r]",
        "test_marked[[z]]",
        "TestGroup::test_in_a_class",
    ]
    assert all(call.startswith("-n -- env ") and f" {sys.executable} -m pytest " in call for call in runs)


@pytest.mark.slow("whole runs of pytest; single tests under sudo are in make test")
def test_every_outcome_is_the_privileged_ones(pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run) -> None:
    sudo.install(WILLING)
    pytester.makepyfile(
        """
        import os, pytest
        pytestmark = pytest.mark.sudo
        def test_fails(): assert os.geteuid() == 1, "told by the test"
        def test_skips(): pytest.skip("no such kernel")
        @pytest.mark.skipif(os.geteuid() == 0, reason="root has no use for it")
        def test_is_skipped_for_root(): pass
        @pytest.mark.skipif(os.geteuid() != 0, reason="not for somebody")
        def test_is_skipped_for_a_user(): assert os.geteuid() == 0
        @pytest.mark.xfail(reason="known", strict=True)
        def test_fails_as_expected(): assert False
        def test_gives_up(): pytest.xfail("midway")
        @pytest.mark.xfail(reason="known", strict=True)
        def test_passes_unexpectedly(): pass
        @pytest.fixture
        def broken(): raise OSError("told by the fixture")
        def test_has_no_fixture(broken): pass
        """
    )

    result = run_unprivileged()

    result.assert_outcomes(passed=1, failed=3, skipped=2, xfailed=2)
    result.stdout.fnmatch_lines_random(
        ["*told by the test*", "*told by the fixture*", "*XPASS(strict)*", "XFAIL*known", "SKIPPED*: no such kernel"]
    )
    result.stdout.fnmatch_lines(["SKIPPED*: root has no use for it"])
    # Once by the privileged run, once around it.
    assert result.stdout.str().count("___ test_fails ___") == 2
    result.stdout.no_fnmatch_line("*Skipped: *")
    result.stdout.no_fnmatch_line("*reason: *")


@pytest.mark.slow("whole runs of pytest; single tests under sudo are in make test")
def test_outcome_of_a_test_is_reported_under_any_umask(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run
) -> None:
    sudo.install(SECRETIVE)
    pytester.makepyfile(
        """
        import os, pytest
        pytestmark = pytest.mark.sudo
        def test_skips(): pytest.skip("no such kernel")
        @pytest.mark.xfail(reason="known", strict=True)
        def test_fails_as_expected(): assert os.geteuid() == 1
        """
    )

    result = run_unprivileged()

    result.assert_outcomes(skipped=1, xfailed=1)
    told = (sudo.folder / "read").read_text()
    assert ("no such kernel" in told, "known" in told) == (True, True)


def test_a_module_that_root_cannot_import_fails_the_test(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run
) -> None:
    sudo.install(WILLING)
    pytester.makepyfile(
        """
        import os, pytest
        if os.geteuid() == 0:
            raise OSError("not for root")
        @pytest.mark.sudo
        def test_it(): pass
        """
    )

    result = run_unprivileged()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*OSError: not for root*"])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("", "needs root, and there is no sudo here"),
        (REFUSING, "needs root, and `sudo -n true` ended with 1: sudo: a password is required"),
    ],
    ids=["no sudo", "a password"],
)
def test_without_sudo_the_reason_is_given(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run, script: str, reason: str
) -> None:
    if script:
        sudo.install(script)
    pytester.makepyfile("import pytest\n@pytest.mark.sudo\ndef test_it(): raise OSError")

    result = run_unprivileged()

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*: {reason}"])


def test_a_sudo_that_gives_no_root_is_not_asked_again_and_again(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run
) -> None:
    sudo.install(POWERLESS)
    # All programs but sudo are found, so that only the privilege is missing.
    (sudo.folder / "env").symlink_to("/usr/bin/env")
    (sudo.folder / "true").symlink_to("/usr/bin/true")
    pytester.makepyfile("import pytest\n@pytest.mark.sudo\ndef test_it(): pass")

    result = run_unprivileged()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*sudo was meant to make this pytest root, and did not*"])
    assert len(sudo.calls()) == 2


@pytest.mark.slow("whole runs of pytest; single tests under sudo are in make test")
def test_under_xdist_each_marked_test_runs_once(pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run) -> None:
    sudo.install(WILLING)
    pytester.makeini("[pytest]\naddopts = -n 2 --dist loadgroup")
    pytester.makepyfile(
        """
        import os, pytest
        @pytest.mark.sudo
        @pytest.mark.xdist_group("one")
        @pytest.mark.parametrize("number", range(4))
        def test_marked(number):
            assert os.geteuid() == 0
            assert "PYTEST_XDIST_WORKER" not in os.environ
        def test_unmarked(): assert os.geteuid() == 65534
        """
    )

    result = run_unprivileged()

    result.assert_outcomes(passed=5)
    assert len([call for call in sudo.calls() if call != "-n true"]) == 4


def test_configuration_working_folder_and_environment_reach_the_privileged_run(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo.install(WILLING)
    monkeypatch.setenv("CNI_PATH", "/opt/cni/bin with a space")
    monkeypatch.setenv("UNRELATED", "1")
    pytester.mkdir("settings")
    pytester.makeini("[pytest]\naddopts = --not-this-file")
    pytester.makefile(
        ".ini", **{"settings/ours": "[pytest]\nmarkers = ours: declared here\naddopts = --strict-markers"}
    )
    pytester.makepyfile(plugged="import pytest\n@pytest.fixture\ndef plugged(): return 'by -p'")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    below = pytester.mkpydir("below")
    (below / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef shared(): return 'by conftest'")
    (below / "test_below.py").write_text(
        f"""
import os, pytest
@pytest.mark.ours
@pytest.mark.sudo
def test_it(pytestconfig, shared, plugged):
    assert (shared, plugged) == ("by conftest", "by -p")
    assert str(pytestconfig.rootpath) == {str(pytester.path)!r}
    assert pytestconfig.getini("console_output_style") == "classic"
    assert os.getcwd() == {str(below)!r}
    assert os.environ["CNI_PATH"] == "/opt/cni/bin with a space"
    assert os.environ["PATH"] == {f"{sudo.folder}:/nonexistent"!r}
    assert "UNRELATED" not in os.environ
"""
    )
    monkeypatch.chdir(below)

    configuration = [
        "-c",
        "../settings/ours.ini",
        "--rootdir",
        "..",
        "-p",
        "plugged",
        "-o",
        "console_output_style=classic",
    ]
    result = run_unprivileged(*configuration, "test_below.py")

    result.assert_outcomes(passed=1)


def test_marked_tests_can_be_left_out(pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run) -> None:
    sudo.install(WILLING)
    pytester.makepyfile("import pytest\n@pytest.mark.sudo\ndef test_marked(): pass\ndef test_unmarked(): pass")

    run_unprivileged("-m", "not sudo").assert_outcomes(passed=1, deselected=1)
    run_unprivileged("-k", "unmarked").assert_outcomes(passed=1, deselected=1)
    assert sudo.calls() == []


def test_root_run_leaves_no_files_in_the_tree_of_a_user(
    pytester: pytest.Pytester, sudo: Sudo, run_unprivileged: Run
) -> None:
    sudo.install(WILLING)
    pytester.makepyfile("import pytest\n@pytest.mark.sudo\ndef test_it(): pass")
    for path in (pytester.path, *pytester.path.rglob("*")):
        path.chmod(0o777)

    def of_root() -> set[Path]:
        return {path for path in pytester.path.rglob("*") if path.stat().st_uid == 0} - pytester_own

    pytester_own = {pytester.path / "stdout", pytester.path / "stderr"}
    before = of_root()

    run_unprivileged().assert_outcomes(passed=1)

    assert of_root() == before
    assert (pytester.path / ".pytest_cache").stat().st_uid == 65534
