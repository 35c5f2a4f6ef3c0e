"""A harness that is killed at any moment leaves only what it can find again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.pods import PodStore
from tests.cli import Cli, bridge_network
from tests.nodes import until

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
from harness.cli import main
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
        timeout=60,
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


@pytest.mark.timeout(300)
def test_add_killed_at_every_step_can_be_deleted(reference_cli: Cli, tmp_path: Path) -> None:
    cli = reference_cli
    cli.configure(bridge_network("net"))
    log = tmp_path / "sandboxes"
    log.touch()
    states = set()

    for moment in range(1, FAR_TOO_MANY):
        code = crash(cli, moment, log, "add", "pod1")
        states |= {pod.state for pod in PodStore(cli.node_dir / "pods").all()}
        cli.run("del", "pod1")
        assert_nothing_left(cli, log)
        if code == 0:
            break
    else:
        pytest.fail("it never got through")

    assert moment > 10
    assert states == {"incomplete", "ready"}
    assert log.read_text()


@pytest.mark.timeout(300)
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
        harness.wait(10)
        # Its opening waits for the reader, and lets it go.
        gate.write_text("\n")
        (pod,) = cli.pods()
        assert pod["state"] == "incomplete"
        assert len(cli.reservations("net")) == 1

    cli.run("del", "pod1")
    assert cli.pods() == []
    assert cli.reservations("net") == set()
    assert not Path(pod["netns"]).exists()


def test_record_that_is_no_record_is_named(reference_cli: Cli) -> None:
    folder = reference_cli.node_dir / "pods" / "default_pod1"
    folder.mkdir(parents=True)
    (folder / "pod.json").write_text(json.dumps({"name": 1}))

    failed = reference_cli.run("list", check=False)

    assert failed.returncode == 1
    assert failed.stderr.startswith(f"Error: {folder}/pod.json: not the record of a pod")
