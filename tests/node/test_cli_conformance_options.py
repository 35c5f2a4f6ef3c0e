"""`cni-harness conformance` day by day: known failures, the choice of checks, the first failure, a node that stays."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.conformance.catalogue import SUITE_VERSION
from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

EXAMINED = ("conformance", "--plugin", "bridge", "--profile", "interface")
FAULTS = '[ "$CNI_COMMAND" = DEL ] && [ -z "$CNI_NETNS" ] && exit 1\n[ "$CNI_COMMAND" = CHECK ] && exit 7\n'
"""del-netns-empty (SHOULD) and check-after-add (MUST) fail; del-twice passes."""
THREE = ("--check", "del-netns-empty", "--check", "del-twice", "--check", "check-after-add")


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], direct_bin_dir: Path) -> Iterator[Cli]:
    """A command line with a bridge network, and a bridge plugin with two faults."""
    made = make_cli(direct_bin_dir)
    made.configure(bridge_network("net"))
    made.plugin("bridge", f"{FAULTS}exec {direct_bin_dir}/bridge\n")
    yield made
    for path in Path("/run/netns").glob("conformance-*"):
        if any(made.state_dir.glob(f"nodes/{path.name.rpartition('-')[0]}-*")):  # a test that failed
            remove_namespace(str(path))


@pytest.mark.slow("runs of the suite; the exit code of a run is in make test")
def test_known_failures_do_not_count_and_new_ones_do(cli: Cli, tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text("bridge check-* # CHECK is planned\n\nbridge del-twice # was so once\n")
    examined = (*EXAMINED, *THREE, "--fail-on", "MUST", "--known-failures", str(known))

    run = cli.run(*examined)

    assert "fail check-after-add (MUST), known: CHECK is planned\n" in run.stdout
    assert "warn del-netns-empty (SHOULD; SPEC.md, 2 Execution Protocol / DEL)\n" in run.stdout
    assert run.stdout.endswith(
        "  failed: 1 MUST; 1 of them known\n"
        "  warned: 1 SHOULD\n"
        "  known failures that pass now:\n"
        f"    bridge del-twice passes now: remove line 3 of {known}\n"
    )

    document = cli.run(*examined, "-o", "json")

    assert {each["id"]: each["known"] for each in json.loads(document.stdout)["checks"]} == {
        "del-netns-empty": "",
        "del-twice": "",
        "check-after-add": "CHECK is planned",
    }
    assert document.stderr.endswith(f"bridge del-twice passes now: remove line 3 of {known}\n")

    # With the default threshold del-netns-empty counts, and the file does not name it.
    assert cli.run(*examined, "--fail-on", "works", check=False).returncode == 1
    known.write_text("host-local check-* # another plugin's\n")
    assert cli.run(*examined, check=False).returncode == 1


@pytest.mark.slow("runs of the suite; the exit code of a run is in make test")
def test_the_first_file_of_known_failures_is_written(cli: Cli, tmp_path: Path) -> None:
    known = tmp_path / "ci" / "known.txt"

    first = cli.run(*EXAMINED, *THREE, "--save-known", str(known), check=False)
    unread = cli.run(*EXAMINED, *THREE, "--known-failures", str(known), check=False)
    written = known.read_text()
    known.write_text(written.replace("reason:\n", "reason: issue 8\n").replace(SUITE_VERSION, "1.1.0-2"))
    second = cli.run(*EXAMINED, *THREE, "--known-failures", str(known))

    assert first.returncode == 1
    assert first.stdout.endswith(f"  reports:\n    {known}\n")
    assert written.splitlines()[3:] == [
        "# MUST: exit code 7, and nothing said",
        "net/bridge check-after-add  # reason:",
        "# SHOULD: exit code 1, and nothing said",
        "net/bridge del-netns-empty  # reason:",
    ]
    assert (unread.returncode, unread.stderr.count("line 5: net/bridge check-after-add: the reason is missing")) == (
        2,
        1,
    )
    assert "2 of them known" in second.stdout
    assert f"Warning: {known} is of the suite 1.1.0-2; this one, {SUITE_VERSION}, may find more\n" in second.stderr


@pytest.mark.mostly_slow(4, "each option; a part is in make test")
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--known-failures", "/nowhere"], "--known-failures /nowhere: No such file or directory"),
        (["--known-failures", "{known}"], "--known-failures {known}, line 2: there is no check del-repeated"),
        (["--check", "dell-*"], "--check dell-*: no such check; see `cni-harness conformance --list`"),
        (["--skip", "del-twicee"], "--skip del-twicee: no such check; there is del-twice"),
        (["--section", "2.AD"], "--section 2.AD: no such section; there is 2.ADD"),
        (["--section", "nine"], "2.parameters, "),
        (["--level", "ALL"], "'MUST', 'SHOULD', 'MAY', 'CONVENTION'"),
        (["clean", "conformance-00000000"], "conformance-00000000: no node that was kept; there is none"),
    ],
)
def test_unknown_files_and_checks_are_named(cli: Cli, tmp_path: Path, args: list[str], complaint: str) -> None:
    known = tmp_path / "known.txt"
    known.write_text("# ours\nbridge del-repeated # why\n")

    run = cli.run("conformance", *(each.format(known=known) for each in args), check=False)

    assert (run.returncode, run.stdout) == (2, "")
    assert complaint.format(known=known) in run.stderr


def test_checks_are_errors_without_tools_for_leftovers(cli: Cli) -> None:
    hide = 'mount --bind /dev/null "$(realpath "$(command -v tc)")" && exec "$@"'
    cli.prefix = ["unshare", "--mount", "sh", "-c", hide, "sh"]

    run = cli.run(*EXAMINED, "--check", "del-twice", "-o", "json", check=False)

    (found,) = json.loads(run.stdout)["checks"]
    assert (run.returncode, found["outcome"]) == (1, "error")
    assert "the suite needs iproute2 and nftables: tc is not installed" in found["detail"]


def test_an_unwritable_folder_is_named_before_the_checks(cli: Cli) -> None:
    run = cli.run(*EXAMINED, "--check", "del-twice", "--report", "/proc/self/report.md", check=False)

    assert (run.returncode, run.stdout) == (1, "")
    assert re.fullmatch(r"Error: /proc/self: [A-Z].*\n", run.stderr)


def test_checks_are_chosen_by_pattern_level_and_section(cli: Cli) -> None:
    listed = cli.json("conformance", "--list", "--check", "del-*", "--skip", "*-netns-*", "--level", "SHOULD")

    assert {"del-twice", "del-undoes-add"} <= {each["id"] for each in listed["checks"]}
    assert all(each["id"].startswith("del-") and "-netns-" not in each["id"] for each in listed["checks"])
    assert {each["level"] for each in listed["checks"]} == {"MUST", "SHOULD"}

    table = cli.run("conformance", "--list", "--section", "4").stdout

    assert "\n4.delegated-plugin-protocol " in table
    assert "delegate-success " in table
    assert "del-twice " not in table


@pytest.mark.slow("runs of the suite; the exit code of a run is in make test")
def test_the_run_ends_at_the_first_failure_that_counts(cli: Cli, tmp_path: Path) -> None:
    document = tmp_path / "report.json"
    every = (
        *EXAMINED,
        "--check",
        "check-after-add",
        "--check",
        "del-netns-empty",
        "--check",
        "del-twice",
        *("--fail-fast", "--jobs", "1"),
    )
    known = tmp_path / "known.txt"
    known.write_text("bridge check-after-add # CHECK is planned\nbridge del-netns-empty # DEL, too\n")

    # In the catalogue, the checks of CHECK come last.
    run = cli.run(*every, "--check", "check-later-*", "--report", str(document), check=False)
    later = cli.run(*every, "--known-failures", str(known), "-o", "json")

    assert run.returncode == 1
    found = [each["id"] for each in json.loads(document.read_text())["checks"]]
    assert found[-1] == "check-after-add"
    assert not any(each.startswith("check-later") for each in found)
    assert "  cut short: --fail-fast\n" in run.stdout
    assert json.loads(later.stdout)["cut_short"] == ""
    assert len(json.loads(later.stdout)["checks"]) == 3


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_a_finding_is_repeated_by_its_command(cli: Cli, tmp_path: Path) -> None:
    cli.plugin("prepare", "ip link add uplink0 type veth\n")
    prepare = cli.folder / "bin" / "prepare"
    (tmp_path / "none").touch()
    others = ("--jobs", "2", "--known-failures", str(tmp_path / "none"), "--save-known", str(tmp_path / "saved"))
    given = ("--prepare", str(prepare), "--timeout", "90.5", *others)

    run = cli.run(*EXAMINED, "--check", "check-after-add", *given, check=False)

    (line,) = [line for line in run.stdout.splitlines() if line.startswith("  repeat:")]
    words = shlex.split(line.partition(":")[2])
    assert words == [
        *("cni-harness", "conformance", "--bin-dir", cli.environment["CNI_PATH"]),
        *("--conf", str(cli.conf_dir / "00-net.conflist"), "--plugin", "bridge", "--check", "check-after-add"),
        *("--profile", "interface", "--prepare", str(prepare), "--timeout", "90.5"),
    ]
    again = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *words[1:]],
        env={"PATH": cli.environment["PATH"], "PYTHONPATH": cli.environment["PYTHONPATH"]},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert again.returncode == 1
    assert "fail check-after-add (MUST; " in again.stdout


def test_the_calls_of_a_failed_check_can_be_seen(cli: Cli) -> None:
    run = cli.run(*EXAMINED, "--check", "check-after-add", "-v", check=False)

    calls = run.stdout.partition("  The calls of check-after-add:\n")[2]
    assert calls.startswith("# 1. bridge ADD, ")
    assert f"  {cli.folder}/bin/bridge <<'EOF'\n{{\n" in calls
    assert "\n# exit code 7, after " in calls


@pytest.mark.slow("runs of the suite; its report and exit code are in make test")
def test_a_node_stays_for_a_look_until_it_is_removed(cli: Cli, tmp_path: Path) -> None:
    started = f"setsid sleep 600 >/dev/null 2>&1 <&- & echo $! >{tmp_path}/pid"
    daemon = f'[ "$CNI_COMMAND" = CHECK ] && {{ {started}; }}\n'
    script = (cli.folder / "bin" / "bridge").read_text().partition("\n")[2]
    cli.plugin("bridge", daemon + script)
    known = tmp_path / "known.txt"
    known.write_text("bridge del-netns-empty # known: its node goes\n")

    written = tmp_path / "report.json"
    options = ("--keep", "--known-failures", str(known), "--timeout", "60", "--report", str(written))
    run = cli.run(*EXAMINED, *THREE, *options, check=False)

    told = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in run.stdout.splitlines()}
    node = told["node"].partition(",")[0]
    (name,) = {path.name.rpartition("-")[0] for path in cli.state_dir.glob("nodes/*")}
    assert node == f"/run/netns/{name}-1"
    assert "  kept: 1 nodes; " in run.stdout
    kept = {each["id"]: each["kept"] for each in json.loads(written.read_text())["checks"] if each["kept"]}
    assert [(check, each["name"], each["enter"], each["remove"]) for check, each in kept.items()] == [
        ("check-after-add", name, told["enter"], told["remove"])
    ]
    inside = [*shlex.split(told["enter"]), "-c", "ip link show net0 && ls /var/lib/cni/networks"]
    assert subprocess.run(inside, capture_output=True, text=True, timeout=HANG, check=True).stdout.endswith("\nnet\n")
    process = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/cwd")
    assert process.exists()

    words = shlex.split(told["remove"])
    assert words == ["cni-harness", "--state-dir", str(cli.state_dir), "conformance", "clean", name]
    assert cli.run(*words[1:]).stdout.split() == ["REMOVED", name]

    assert not process.exists()  # a zombie has none
    assert list(Path("/run/netns").glob(f"{name}-*")) == []
    assert list(cli.state_dir.glob("nodes/*")) == []
    assert cli.json("conformance", "clean") == {"removed": []}
