"""Commands inside pods."""

import signal
from pathlib import Path

import pytest

from tests.cli import ROOT, Cli

pytestmark = pytest.mark.sudo


@pytest.fixture
def pod(own_cli: Cli) -> Cli:
    own_cli.configure({"cniVersion": "1.1.0", "name": "none", "plugins": [{"type": "noop"}]})
    own_cli.run("add", "pod1")
    return own_cli


def test_command_runs_in_the_pods_network_namespace(pod: Cli) -> None:
    (record,) = pod.pods()
    inode = Path(record["netns"]).stat().st_ino

    assert pod.run("exec", "pod1", "readlink", "/proc/self/ns/net").stdout == f"net:[{inode}]\n"


def test_sys_shows_the_pods_interfaces(pod: Cli) -> None:
    assert pod.run("exec", "pod1", "ls", "/sys/class/net").stdout == "lo\n"


def test_exit_code_is_the_commands(pod: Cli) -> None:
    assert pod.run("exec", "pod1", "--", "sh", "-c", "exit 42", check=False).returncode == 42


def test_signals_are_the_commands(pod: Cli) -> None:
    assert pod.run("exec", "pod1", "--", "sh", "-c", "kill -TERM $$", check=False).returncode == -signal.SIGTERM


def test_command_dies_of_a_broken_pipe(pod: Cli) -> None:
    killed = pod.run("exec", "pod1", "sh", "-c", "kill -PIPE $$; echo survived", check=False)

    assert (killed.returncode, killed.stdout, killed.stderr) == (-signal.SIGPIPE, "", "")


def test_standard_input_is_the_commands(pod: Cli) -> None:
    assert pod.run("exec", "pod1", "cat", stdin="hello").stdout == "hello"


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    "arguments",
    [
        ("pod1", "echo", "-o", "-v"),
        ("pod1", "--", "echo", "-o", "-v"),
        ("pod1", "-v", "--", "echo", "-o", "-v"),
        ("-v", "pod1", "--namespace", "default", "--", "echo", "-o", "-v"),
        ("--", "pod1", "echo", "-o", "-v"),
    ],
)
def test_options_of_the_command_are_left_to_it(pod: Cli, arguments: tuple[str, ...]) -> None:
    assert pod.run("exec", *arguments).stdout == "-o -v\n"


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("sh", "-c", 'echo "$0 $*"', "x", "--", "y"), "x -- y"),
        (("echo", "-v", "--", "hello"), "-v -- hello"),
        (("echo", "a", "--", "b"), "a -- b"),
        (("-v", "--", "echo", "-v", "--", "b"), "-v -- b"),
        (("--", "echo", "a", "--", "b"), "a -- b"),
    ],
)
def test_two_dashes_in_the_command_are_its_own(pod: Cli, arguments: tuple[str, ...], printed: str) -> None:
    assert pod.run("exec", "pod1", *arguments).stdout == f"{printed}\n"


def test_later_option_counts_on_either_side_of_the_pod(pod: Cli) -> None:
    assert pod.run("exec", "--namespace", "none", "pod1", "--namespace", "default", "--", "echo", "x").stdout == "x\n"


def test_unknown_option_before_the_two_dashes_is_an_error(pod: Cli) -> None:
    failed = pod.run("exec", "pod1", "--nonsense", "--", "true", check=False)

    assert failed.returncode == 2
    assert failed.stderr.startswith("Error: No such option '--nonsense'")


def test_unknown_command_is_127(pod: Cli) -> None:
    failed = pod.run("exec", "pod1", "no-such-command", check=False)

    assert (failed.returncode, failed.stderr) == (127, "Error: no-such-command: command not found\n")


def test_exec_of_a_file_without_permission_returns_126(pod: Cli) -> None:
    assert pod.run("exec", "pod1", str(ROOT / "pyproject.toml"), check=False).returncode == 126


def test_unknown_pod_is_an_error(pod: Cli) -> None:
    failed = pod.run("exec", "pod2", "true", check=False)

    assert (failed.returncode, failed.stderr) == (1, "Error: there is no pod default/pod2\n")


def test_resolv_conf_of_the_machine_stays(pod: Cli) -> None:
    before = Path("/etc/resolv.conf").read_bytes()

    shown = pod.run("exec", "pod1", "cat", "/etc/resolv.conf").stdout

    assert shown.startswith("# No network of this pod says anything of dns")
    assert Path("/etc/resolv.conf").read_bytes() == before
