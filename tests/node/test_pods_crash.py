"""A harness that is killed at any moment leaves only state that it can find again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runtime.pod_record import Pod
from harness.runtime.pods import PodStore
from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network
from tests.nodes import HANG, until

pytestmark = pytest.mark.sudo

# Kills itself just before the nth time that it would change a file or start a plugin, and writes down the sandboxes
# that it was about to make.
CRASHING = """
import os, signal, sys
moment, log = int(sys.argv.pop(1)), os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND)
CHANGES = {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "subprocess.Popen", "fcntl.flock"}
count = 0

def hook(event, args):
    global count
    changes = event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT)
    if event == "open" and str(args[0]).startswith("/run/netns/cni-"):
        os.write(log, f"{args[0]}\\n".encode())
    if changes:
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
from harness.cli.main import main
main()
"""
FAR_TOO_MANY = 200


def crash(cli: Cli, moment: int, log: Path, *args: str) -> int:
    run = subprocess.run(
        [sys.executable, "-B", "-c", CRASHING, str(moment), str(log), *args],
        env=cli.environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert run.returncode in {0, -9}, run.stderr
    return run.returncode


def assert_nothing_left(cli: Cli, log: Path) -> None:
    assert [path.name for path in (cli.node_dir / "pods").glob("*")] == []
    assert (cli.reservations("net"), cli.cached_results()) == (set(), set())
    assert not any(Path(netns).exists() for netns in log.read_text().split())
    if Path(f"/run/netns/{cli.node}").exists():
        assert {link["ifname"] for link in cli.ip("link")} <= {"lo", "net0"}


@pytest.mark.slow("each step; test_pods_failures fails single ones in make test")
def test_add_killed_at_every_step_can_be_deleted(reference_cli: Cli, tmp_path: Path) -> None:
    cli = reference_cli
    cli.configure(bridge_network("net"))
    log = tmp_path / "sandboxes"
    log.touch()
    states = set()

    for moment in range(1, FAR_TOO_MANY):
        code = crash(cli, moment, log, "add", "pod1")
        states |= {pod.state for pod in PodStore(cli.node_dir / "pods", Pod).all()}
        cli.run("del", "pod1")
        assert_nothing_left(cli, log)
        if code == 0:
            break
    else:
        pytest.fail("it never got through")

    assert moment > 10
    assert states == {"MAKING", "READY"}
    assert log.read_text()


@pytest.mark.slow("kills at each step; add killed at each step is in make test")
def test_delete_killed_at_every_step_can_be_repeated(reference_cli: Cli, tmp_path: Path) -> None:
    cli = reference_cli
    cli.configure(bridge_network("net"))
    log = tmp_path / "sandboxes"
    log.touch()

    for moment in range(1, FAR_TOO_MANY):
        cli.run("add", "pod1")
        code = crash(cli, moment, log, "del", "pod1")
        cli.run("del", "pod1")
        assert_nothing_left(cli, log)
        if code == 0:
            break
    else:
        pytest.fail("it never got through")

    assert moment > 3


def test_harness_killed_while_a_plugin_runs(reference_cli: Cli) -> None:
    cli = reference_cli
    started, gate = cli.folder / "started", cli.folder / "gate"
    os.mkfifo(gate)
    cli.plugin(
        "slow",
        f"""cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
touch {started}
read -r line < {gate}
""",
    )
    network = bridge_network("net")
    network["plugins"].append({"type": "slow"})
    cli.configure(network)

    with cli.background("add", "pod1") as harness:
        until(started.exists)
        harness.kill()
        harness.wait(HANG)
        # Its opening waits for the reader, and lets it go.
        gate.write_text("\n")
        (pod,) = cli.pods()
        assert pod["state"] == "incomplete"
        assert len(cli.reservations("net")) == 1

    cli.run("del", "pod1")
    assert cli.pods() == []
    assert cli.reservations("net") == set()
    assert not Path(pod["netns"]).exists()


@pytest.fixture
def unreadable(own_cli: Cli) -> tuple[Cli, Path]:
    """Three pods, and the record of the second, which is none any more."""
    own_cli.configure(bridge_network("net", version="1.1.0"))
    pods = own_cli.add("pod1", "pod2", "pod3")
    record = own_cli.node_dir / "pods" / "default_pod2" / "pod.json"
    # `Cli.close` finds the sandbox in it.
    record.write_text(json.dumps({"name": 1, "netns": pods[1]["netns"]}))
    return own_cli, record


def test_record_that_is_no_record_is_named_and_the_others_are_listed(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable

    listed = cli.run("list", "-o", "json")

    assert [pod["name"] for pod in json.loads(listed.stdout)["pods"]] == ["pod1", "pod3"]
    assert listed.stderr == f"Warning: {record}: not the record of a pod: name: expected a string, got 1\n"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_snapshot_without_a_record_is_of_the_other_pods(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable

    taken = cli.run("snapshot", "-o", "json")

    assert {"pod1/links", "pod3/links"} <= json.loads(taken.stdout)["sections"].keys()
    assert f"Warning: {record}: not the record of a pod" in taken.stderr


def test_check_of_all_pods_names_the_unreadable_record(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable

    checked = cli.run("check", "-o", "json", check=False)

    assert checked.returncode == 1
    assert checked.stderr.startswith(f"Error: pod default/pod2: {record}: not the record of a pod")
    assert [(pod["name"], pod["networks"][0]["error"]) for pod in json.loads(checked.stdout)["pods"]] == [
        ("pod1", ""),
        ("pod3", ""),
    ]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_delete_of_all_pods_keeps_the_pod_with_an_unreadable_record(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable

    deleted = cli.run("del", "--all", "--prune", check=False)

    assert deleted.returncode == 1
    assert f"Error: pod default/pod2: {record}: not the record of a pod" in deleted.stderr
    assert "--force forgets the pod" in deleted.stderr
    assert [path.name for path in (cli.node_dir / "pods").iterdir()] == ["default_pod2"]
    assert len(cli.reservations("net")) == 1
    assert len(cli.ip("link", "show", "master", "net0")) == 1


def test_delete_by_force_forgets_an_unreadable_record(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable
    netns = json.loads(record.read_text())["netns"]

    forced = cli.run("del", "pod2", "--force", check=False)

    remove_namespace(netns)
    assert forced.returncode == 1
    assert forced.stderr.startswith("Error: pod default/pod2: forgotten, not taken away: ")
    assert not record.parent.exists()
    assert [pod["name"] for pod in cli.pods()] == ["pod1", "pod3"]
    assert len(cli.reservations("net")) == 3
    cli.run("gc")
    assert len(cli.reservations("net")) == 2


def test_gc_frees_nothing_while_a_record_is_unreadable(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable

    refused = cli.run("gc", check=False)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"Error: {record}: not the record of a pod")
    assert len(cli.reservations("net")) == 3


def test_record_of_another_pod_is_not_this_pods(unreadable: tuple[Cli, Path]) -> None:
    cli, record = unreadable
    other = json.loads((cli.node_dir / "pods" / "default_pod1" / "pod.json").read_text())
    record.write_text(json.dumps(other | {"netns": json.loads(record.read_text())["netns"]}))

    failed = cli.run("del", "pod2", check=False)

    assert failed.returncode == 1
    assert f"{record}: not the record of a pod: it is of pod default/pod1" in failed.stderr
    assert len(cli.reservations("net")) == 3
