"""`cni-harness nodes`: pods of many nodes on one machine reach each other, and interruptions leave nothing."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.cli.command_line import run
from harness.files import locked
from harness.runtime.cluster import UNDERLAY, ClusterFiles
from harness.runtime.pod_record import Pod
from netlink.namespace import remove_namespace
from tests.cli import ROOT
from tests.nodes import BARE_PATH, HANG, until
from tools.scale.pods import add_pods, ends
from tools.scale.prober import Prober, ordered_pairs

pytestmark = pytest.mark.sudo

DUAL = "10.244.0.0/16,fd00:244::/48"
NETNS = Path("/run/netns")


class Machine:
    """The machine with the nodes, and the command line on it."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "state"
        self.files = ClusterFiles(self.state_dir)
        self.environment = {
            "PATH": BARE_PATH,
            "PYTHONPATH": str(ROOT),
            "CNI_HARNESS_STATE_DIR": str(self.state_dir),
        }

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", *args],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, code: int = 0) -> str:
        """Run a verb to its end, and return its output."""
        with self.start(*args) as process:
            stdout, stderr = process.communicate(timeout=HANG)
        log = self.files.log.read_text() if self.files.log.exists() else ""
        assert process.returncode == code, (args, stdout, stderr, log)
        return stdout + stderr

    def up(self, count: int, *options: str, cidr: str = DUAL, code: int = 0) -> str:
        return self.run("nodes", "up", "--count", str(count), "--cluster-cidr", cidr, *options, code=code)

    def json(self, *args: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run(*args, "-o", "json"))
        return document

    def route(self, node: int, dst: str) -> list[dict[str, Any]]:
        routes: list[dict[str, Any]] = json.loads(self.run("nodes", "exec", str(node), "--", "ip", "-j", "route"))
        return [route for route in routes if route["dst"] == dst]

    def left(self) -> list[str]:
        """Return all that nodes have left: namespaces, files, links and processes."""
        files = [str(path) for path in self.state_dir.glob("*") if path.name != "bin"]
        links = [link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link"])) or ()]
        commands = [command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        processes = [str(each) for each in commands if str(self.state_dir).encode() in each]
        namespaces = [str(path) for name in ("node-*", UNDERLAY) for path in NETNS.glob(name)]
        return [*namespaces, *files, *(link for link in links if link != "lo"), *processes]


def command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return b""


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Names of nodes are the machine's: one test has them at a time."""
    common = tmp_path_factory.getbasetemp().parent
    with locked(common / "nodes.lock"), ExitStack() as stack:
        made = Machine(tmp_path)
        stack.callback(made.run, "nodes", "down")
        yield made


def faults(pods: dict[str, list[Pod]], pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Probe pairs with both IP versions."""
    found: list[str] = []
    for version in (4, 6):
        with Prober(ends(pods, version)) as prober:
            found += prober.faults(pairs)
    return found


def faults_of_size(pods: dict[str, list[Pod]], pairs: Sequence[tuple[int, int]], mtu: int) -> list[str]:
    """Send packets of full MTU, and of one byte more, with both IP versions."""
    found: list[str] = []
    for version in (4, 6):
        with Prober(ends(pods, version)) as prober:
            found += [prober.fault_of_size(pair, mtu) for pair in pairs]
    return [each for each in found if each]


def widen(machine: Machine, pods: dict[str, list[Pod]], node: str) -> None:
    """Let a pod send packets that are too large for the nodes, so that its node has to refuse them."""
    (pod, *_) = pods[node]
    result = pod.networks[0].decoded()
    for link in result.interfaces:
        place = [Path(pod.netns).name] if link.sandbox else [node]
        subprocess.run(["ip", "-n", *place, "link", "set", link.name, "mtu", "1600"], check=True)


WAYS = {
    "host-gw": (["--backend", "host-gw"], 1500),
    "vxlan": (["--backend", "vxlan"], 1450),
    "two subnets": (["--backend", "auto", "--subnets", "2"], 1450),
}


@pytest.mark.parametrize("way", WAYS)
def test_pods_of_five_nodes_reach_each_other_with_packets_of_full_mtu(machine: Machine, way: str) -> None:
    options, mtu = WAYS[way]
    machine.up(5, *options)
    pods = add_pods(machine.state_dir, ["pod1"])

    assert faults(pods, list(ordered_pairs(5))) == []
    assert faults_of_size(pods, [(0, 1), (0, 2)], mtu) == []
    widen(machine, pods, "node-1")
    assert faults_of_size(pods, [(0, 3)], 1450 if way == "two subnets" else mtu) == []
    assert machine.json("nodes")["nodes"][0]["pods"] == 1


def test_verbs_show_nodes_and_down_leaves_nothing(machine: Machine) -> None:
    before = root_network()
    machine.up(2, cidr="10.244.0.0/16")
    listed = machine.json("nodes", "list")

    assert [each["podCIDRs"] for each in listed["nodes"]] == [["10.244.1.0/24"], ["10.244.2.0/24"]]
    assert [each["problems"] for each in listed["nodes"]] == [[], []]
    assert machine.files.process() == listed["agents"]["pid"]
    assert machine.route(1, "10.244.2.0/24")[0]["gateway"] == "198.18.0.3"
    machine.run("--node", "node-1", "add", "pod1")
    assert "stand already" in machine.up(2, cidr="10.244.0.0/16")
    refused = machine.up(3, cidr="10.244.0.0/16", code=1)
    assert "there are 2 nodes" in refused
    assert "`cni-harness nodes down` removes them" in refused
    assert "there is no node 3" in machine.run("nodes", "exec", "3", "true", code=1)
    assert machine.run("nodes", "exec", "2", "--", "sh", "-c", "exit 7", code=7) == ""

    machine.run("nodes", "down")

    assert machine.left() == []
    assert root_network() == before
    assert "No nodes" in machine.run("nodes", "down")


def root_network() -> list[str]:
    """Return the links, addresses and parameters of the machine's own network namespace."""
    shown = [["ip", "-br", "address"], ["ip", "neigh"], ["ip", "route"], ["sysctl", "-a", "--pattern", "^net.ipv[46]"]]
    words = ("stable_secret", "random", "neigh")
    output = [subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in shown]
    return [line for text in output for line in text.splitlines() if not any(word in line for word in words)]


WRONG = {
    ("--count", "0", "--cluster-cidr", "10.244.0.0/16"): "0 is not in the range",
    ("--count", "3", "--cluster-cidr", "10.244.0.0/29"): "10.244.0.0/29 is too small for 3 nodes",
    ("--count", "3", "--cluster-cidr", "10.244.0.1/16"): "has host bits set",
    ("--count", "3", "--cluster-cidr", "10.1.0.0/16,10.2.0.0/16"): "one of each family",
    ("--count", "3", "--cluster-cidr", "198.18.0.0/16"): "overlaps 198.18.0.0/15",
    ("--count", "3", "--cluster-cidr", "10.244.0.0/16", "--family", "dual"): "not one range of each of it",
    ("--count", "1", "--cluster-cidr", "10.244.0.0/16", "--subnets", "2"): "2 subnets are more than 1 nodes",
}


@pytest.mark.parametrize("options", WRONG)
def test_wrong_options_are_refused_and_make_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert run(["--state-dir", str(tmp_path / "state"), "nodes", "up", *options]) == 2
    assert WRONG[options] in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_a_namespace_of_another_program_is_refused_and_stays(machine: Machine) -> None:
    subprocess.run(["ip", "netns", "add", "node-2"], check=True)
    try:
        assert "another program has made the network namespace node-2" in machine.up(2, code=1)
        assert machine.left() == ["/run/netns/node-2"]
    finally:
        subprocess.run(["ip", "netns", "del", "node-2"], check=True)
    machine.run("--node", "node-1", "add", "pod1")
    assert "node node-1 exists" in machine.up(2, code=1)
    machine.run("--node", "node-1", "del", "--all", "--prune")
    machine.up(1)
    subprocess.run(["ip", "netns", "add", "node-2"], check=True)
    try:
        machine.run("nodes", "down")

        assert machine.left() == ["/run/netns/node-2"]
    finally:
        subprocess.run(["ip", "netns", "del", "node-2"], check=True)


@pytest.mark.slow("seconds; test_cli_agent follows manifests in make test")
def test_agents_follow_manifests_in_a_users_folder_and_keep_its_other_files(machine: Machine) -> None:
    folder = machine.state_dir.with_name("manifests")
    folder.mkdir()
    (folder / "node-2.json").write_text("{}")
    options = ("--manifests", str(folder))
    assert f"{folder}/node-2.json exists" in machine.up(2, *options, cidr="10.244.0.0/16", code=1)
    (folder / "node-2.json").rename(folder / "other.txt")

    machine.up(2, *options, cidr="10.244.0.0/16")
    (folder / "node-2.json").unlink()
    until(lambda: machine.route(1, "10.244.2.0/24") == [])
    until(lambda: machine.json("nodes")["nodes"][1]["problems"] == ["Node node-2: there is no such Node"])
    machine.run("nodes", "down")

    assert [path.name for path in folder.iterdir()] == ["other.txt"]
    assert machine.left() == []


@pytest.mark.slow("seconds; make test has a killed up that down takes back")
def test_a_killed_process_is_started_anew_and_a_lost_node_made_anew(machine: Machine) -> None:
    machine.up(2)
    pid = machine.files.process()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: machine.files.process() is None)
    assert "The agents do not run" in machine.run("nodes")

    assert "stand;" in machine.up(2)
    again = machine.files.process()
    remove_namespace("/run/netns/node-2")
    assert "stand;" in machine.up(2)

    assert machine.files.process() not in {None, pid, again}
    # As an `up` leaves it that is killed before the uplink is complete.
    subprocess.run(["ip", "-n", "node-1", "link", "set", "eth0", "alias", "a part"], check=True)
    subprocess.run(["ip", "-n", "node-1", "address", "flush", "dev", "eth0"], check=True)
    assert "stand;" in machine.up(2)
    pods = add_pods(machine.state_dir, ["pod1"])
    assert faults(pods, [(0, 1), (1, 0)]) == []
    machine.run("nodes", "down")
    assert machine.left() == []


MOMENTS = [0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7]
"""Seconds after the start of a verb."""


@pytest.mark.mostly_slow(5, "each moment; a part is in make test")
@pytest.mark.slow("seconds each; make test has a killed up that down takes back")
@pytest.mark.parametrize("seconds", MOMENTS)
def test_a_killed_up_and_a_killed_down_are_put_right_by_the_next(machine: Machine, seconds: float) -> None:
    kill_after(machine.start("nodes", "up", "--count", "3", "--cluster-cidr", DUAL), seconds)
    machine.up(3)
    pods = add_pods(machine.state_dir, ["pod1"])
    assert faults(pods, list(ordered_pairs(3))) == []

    kill_after(machine.start("nodes", "down"), seconds)
    machine.run("nodes", "down")

    assert machine.left() == []


@pytest.mark.mostly_slow(5, "each moment; a part is in make test")
@pytest.mark.parametrize("seconds", MOMENTS)
def test_a_killed_up_is_taken_back_by_down(machine: Machine, seconds: float) -> None:
    kill_after(machine.start("nodes", "up", "--count", "3", "--cluster-cidr", DUAL), seconds)
    machine.run("nodes", "down")

    until(lambda: machine.left() == [])


def kill_after(process: subprocess.Popen[str], seconds: float) -> None:
    with process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()


@pytest.mark.slow("50 nodes; five are in make test")
@pytest.mark.time_limit(600, "it makes 50 nodes and pods")
@pytest.mark.parametrize("way", WAYS)
def test_pods_of_fifty_nodes_reach_each_other(machine: Machine, way: str) -> None:
    options, mtu = WAYS[way]
    machine.up(50, *options)
    pods = add_pods(machine.state_dir, ["pod1"])
    pairs = list(ordered_pairs(50))

    chosen = pairs if way == "host-gw" else random.Random(28).sample(pairs, 500)  # noqa: S311 -- a sample
    assert faults(pods, chosen) == []
    assert faults_of_size(pods, chosen[:10], mtu) == []


def test_namespaces_that_another_program_made_after_a_restart_stay(machine: Machine) -> None:
    machine.up(2)
    subprocess.run(["ip", "netns", "delete", "node-2"], check=True)
    subprocess.run(["ip", "netns", "add", "node-2"], check=True)
    subprocess.run(["ip", "-n", "node-2", "link", "add", "eth0", "type", "bridge"], check=True)

    said = machine.up(2, code=1)
    machine.run("nodes", "down")

    assert "another program has made the network namespace node-2" in said
    [link] = json.loads(subprocess.check_output(["ip", "-j", "-n", "node-2", "link", "show", "eth0"]))
    assert link["ifname"] == "eth0"
    assert not (NETNS / "node-1").exists()
    subprocess.run(["ip", "netns", "delete", "node-2"], check=True)
