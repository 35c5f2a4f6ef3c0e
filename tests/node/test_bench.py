"""`cni-harness bench` for real: its measurements, its filled nodes, and no leftovers."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bench.attachments import attached_to
from harness.bench.population import PopulationError, populate
from harness.bench.resources import control_group, process_tree
from harness.bench.suite_node import ServerError, SuiteNode
from harness.bench.suites import MASQUERADED, PLAIN, BenchSuite, default_networks
from harness.libcni.networks import NetworkList, parse_network_list
from harness.runtime.node import Node
from harness.runtime.site import Site
from tests.cli import REFERENCE_BIN_DIR, Cli, bridge_network
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

SMALL = ("--quick", "--rounds", "2", "--pods", "0,3", "--at-once", "2")
TIMEOUT_S = 30.0


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], direct_bin_dir: Path, tmp_path: Path) -> Cli:
    made = make_cli(direct_bin_dir)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    made.environment |= {"TMPDIR": str(temporary), "MPLCONFIGDIR": str(tmp_path)}
    return made


def assert_nothing_left(cli: Cli, stderr: str) -> None:
    (name,) = re.findall(r"nodes (bench-[0-9a-f]{8})-N", stderr)
    assert [path.name for path in Path("/run/netns").iterdir() if path.name.startswith(name)] == []
    assert [path.name for path in Path("/run").iterdir() if path.name.startswith(name)] == []
    assert not (cli.state_dir / "nodes").exists()
    assert list(Path(cli.environment["TMPDIR"]).iterdir()) == []
    processes = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert f"/run/{name}" not in processes
    assert [mount for mount in control_groups() if any(mount.glob(f"{name}*"))] == []


def control_groups() -> list[Path]:
    """Where hierarchies of control groups are mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(path) for _, path, kind, *_ in mounts if kind in {"cgroup", "cgroup2"}]


def series(document: dict[str, Any], **wanted: object) -> list[dict[str, Any]]:
    return [each for each in document["series"] if wanted.items() <= each.items()]


@pytest.mark.slow("it measures two suites; the document of one is in make test")
def test_two_suites_are_measured_side_by_side(cli: Cli, direct_bin_dir: Path, tmp_path: Path) -> None:
    saved, plot = tmp_path / "bench.json", tmp_path / "plot.svg"
    folders = ["--bin-dir", f"ours={direct_bin_dir}", "--bin-dir", f"theirs={REFERENCE_BIN_DIR}"]
    files = ["--save", str(saved), "--plot", str(plot)]

    run = cli.run("bench", *SMALL, *folders, *files)

    assert_nothing_left(cli, run.stderr)
    document = json.loads(saved.read_text())
    assert [(each["name"], each["served"]) for each in document["suites"]] == [("ours", True), ("theirs", False)]
    for suite in ("ours", "theirs"):
        for network in (PLAIN, MASQUERADED):
            for verb in ("ADD", "DEL"):
                for condition in ({"pods": 0, "cold": False}, {"pods": 3, "cold": False}):
                    (each,) = series(document, suite=suite, network=network, verb=verb, **condition)
                    assert each["count"] == len(each["samples"]) == 2
                    assert 0 < each["min"] <= each["median"] <= each["p90"] <= each["p99"] == each["max"] < TIMEOUT_S
                (crowd,) = series(document, suite=suite, network=network, verb=verb, cold=True)
                assert (crowd["at_once"], crowd["count"]) == (2, 1)
    assert [each["suite"] for each in series(document, verb="STATUS")] == ["ours"]
    medians = {
        (each["suite"], each["verb"], each["network"], each["pods"], each["cold"]): each["median"]
        for each in document["series"]
    }
    for ratio in document["ratios"]:
        assert (ratio["suite"], ratio["to"]) == ("ours", "theirs")
        key = (ratio["verb"], ratio["network"], ratio["pods"], ratio["cold"])
        assert ratio["value"] == pytest.approx(medians["ours", *key] / medians["theirs", *key], rel=1e-4)
        assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    assert len(document["ratios"]) == len(medians) // 2
    _assert_costs(document)
    assert re.search(r"^bench-masq +DEL +3 +ours +2 ", run.stdout, re.MULTILINE)
    assert plot.read_text().startswith("<?xml")


def _assert_costs(document: dict[str, Any]) -> None:
    singles = [each for each in document["cpu"] if not each["cold"]]
    assert len(singles) == 8
    assert len(document["cpu"]) == 16
    assert all(0 < each["median"] < TIMEOUT_S for each in document["cpu"])
    memory = {(each["suite"], each["network"]): each for each in document["memory"]}
    assert len(memory) == 4
    for (suite, _), each in memory.items():
        assert 4096 <= each["peak_rss"] < 1 << 28
        assert (each["server_pss"] > 1 << 20) == (suite == "ours")
    ours, theirs = document["suites"]
    assert (
        ours["plugins"]
        < theirs["plugins"]
        == sum((REFERENCE_BIN_DIR / name).stat().st_size for name in ("bridge", "host-local"))
    )
    assert ours["code"] > 1 << 20
    assert theirs["code"] == 0


@pytest.mark.slow("it measures chains; the document of one suite is in make test")
def test_a_list_of_several_plugins_is_the_sum_of_them(cli: Cli, direct_bin_dir: Path, tmp_path: Path) -> None:
    network = bridge_network("several")
    network["plugins"].append({"type": "noop"})
    conf = tmp_path / "several.conflist"
    conf.write_text(json.dumps(network))
    small = ["--quick", "--rounds", "3", "--at-once", "1", "--no-serve"]

    document = cli.json("bench", *small, "--bin-dir", f"ours={direct_bin_dir}", "--conf", str(conf))

    (chain,) = series(document, verb="ADD", plugin="", pods=0, cold=False)
    shares = [series(document, verb="ADD", plugin=plugin, pods=0)[0]["samples"] for plugin in ("bridge", "noop")]
    assert chain["samples"] == pytest.approx([sum(share) for share in zip(*shares, strict=True)])
    assert document["ratios"] == []


def _read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """The output of a process up to `text`."""
    said = ""
    for line in process.stderr or ():
        said += line
        if text in line:
            return said
    raise AssertionError(said)


@pytest.mark.mostly_slow(2, "two signals; one is in make test")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_interrupted(cli: Cli, direct_bin_dir: Path, number: signal.Signals) -> None:
    with cli.background("bench", "--bin-dir", f"ours={direct_bin_dir}", "--pods", "0,5", "--rounds", "40") as process:
        said = _read_until(process, "ADD and DEL")
        process.send_signal(number)
        said += process.communicate(timeout=HANG)[1]

    assert process.returncode == (130 if number == signal.SIGINT else 143), said
    assert_nothing_left(cli, said)


def test_bench_with_a_failing_plugin_leaves_nothing(cli: Cli) -> None:
    cli.plugin("bridge", 'cat > /dev/null; [ $CNI_COMMAND = VERSION ] && exec echo "{}"; echo "no more room"; exit 7\n')

    run = cli.run("bench", *SMALL, check=False)

    assert run.returncode == 1
    assert "bridge ADD: exit code 7: no more room" in run.stderr
    assert_nothing_left(cli, run.stderr)


def test_launchers_that_do_their_work_themselves_are_not_taken_for_served(site: Site, direct_bin_dir: Path) -> None:
    """The server is stopped behind the benchmark's back."""
    suite = BenchSuite("ours", (direct_bin_dir,), served=True)

    node = SuiteNode(site, suite, default_networks()[0], timeout=HANG)
    assert node.server is not None
    node.server.stop()
    node.one("ADD", attached_to(site.namespace()))

    with pytest.raises(ServerError, match=rf"is not served by process {node.server.pid}: "):
        node.__exit__(None, None, None)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_server_is_on_the_node_and_all_of_it_is_counted(site: Site, direct_bin_dir: Path) -> None:
    suite = BenchSuite("ours", (direct_bin_dir,), served=True)

    with SuiteNode(site, suite, default_networks()[0], timeout=HANG) as node:
        assert node.server is not None
        pids = process_tree(node.server.pid)
        (group,) = {line for pid in pids for line in counting_groups(pid)}
        namespaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}
        own_namespace = node.node.run(Path("/proc/thread-self/ns/net").readlink)
        seconds, cpu_seconds = node.at_once_counted("ADD", [attached_to(netns) for netns in site.pods(3)])
        by_itself, _ = node.spawner.call_counted(burn, 0.2)

    assert len(pids) > 1
    assert group.endswith(f"/{node.node.name}")
    assert namespaces == {own_namespace}
    assert 0 < cpu_seconds < seconds * (os.cpu_count() or 1)
    assert by_itself < 0.1, "the starting process itself is not counted"


def test_a_served_suite_has_its_other_executables_too(site: Site, direct_bin_dir: Path, tmp_path: Path) -> None:
    network = bridge_network("several")
    network["plugins"].append({"type": "script"})
    shutil.copytree(direct_bin_dir, tmp_path / "bin")
    script = tmp_path / "bin" / "script"
    script.write_text('#!/bin/sh\nread -r config\necho "{\\"ran\\": \\"$CNI_COMMAND\\"}"\n')
    script.chmod(0o755)
    suite = BenchSuite("ours", (tmp_path / "bin",), served=True)

    with SuiteNode(site, suite, parse_network_list(json.dumps(network).encode()), timeout=HANG) as node:
        executions = node.one("ADD", attached_to(site.namespace()))

    (_, bridge), (name, ended) = executions
    assert json.loads(bridge.stdout)["ips"]
    assert (name, json.loads(ended.stdout)) == ("script", {"ran": "ADD"})


def counting_groups(pid: int) -> list[str]:
    """The control groups of a process that this measurement made."""
    return [line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if "/bench-" in line]


def burn(seconds: float) -> None:
    """Use a processor."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_time_includes_ended_processes_and_their_children(tmp_path: Path) -> None:
    script = "import os, time\nif os.fork(): os.wait()\nwhile time.process_time() < 0.2: pass"
    begin = tmp_path / "begin"
    os.mkfifo(begin)

    with control_group(f"bench-{uuid.uuid4().hex[:8]}") as group:
        process = subprocess.Popen(["/bin/sh", "-c", f'read x <{begin}; exec python3 -c "$0"', script])
        group.add(process.pid)
        begin.write_text("\n")
        process.wait(HANG)
        used = group.cpu_seconds_at_rest()

    assert 0.4 <= used < 4
    assert not group.folder.exists()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "state", "bench") as made:
        yield made


def shape(node: Node) -> tuple[list[str], list[str], list[str]]:
    """Reservations, index and rules of a node, without values by chance: IDs, names of chains, packets, order."""
    folder = node.var_lib_cni / "networks" / MASQUERADED
    files = sorted(re.sub(r"[0-9a-f]{64}", "ID", path.name) for path in folder.iterdir())
    contents = sorted(
        f"{path.name}: {re.sub('[0-9a-f]{64}', 'ID', path.read_bytes().decode())}"
        for path in folder.iterdir()
        if path.name[0].isdigit() or path.name.startswith("last")
    )
    ruleset = subprocess.run(
        ["ip", "netns", "exec", node.name or "", "nft", "list", "ruleset"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ruleset = re.sub(r"CNI-[0-9a-f]{24}", "CHAIN", re.sub(r"[0-9a-f]{64}", "ID", ruleset))
    ruleset = re.sub(r'"[0-9a-f]{15}" comment', "OWNER comment", re.sub(r"packets \d+ bytes \d+", "", ruleset))
    return files, contents, sorted(map(str.strip, re.split(r"[,{}\n]", ruleset)))


def node_of(site: Site, folder: Path, network: NetworkList) -> SuiteNode:
    return SuiteNode(site, BenchSuite("any", (folder,)), network, timeout=HANG)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("suite", ["ours", "reference"])
def test_a_filled_node_is_as_if_the_pods_had_been_added(site: Site, direct_bin_dir: Path, suite: str) -> None:
    folder = direct_bin_dir if suite == "ours" else REFERENCE_BIN_DIR
    network = default_networks()[1]
    with node_of(site, folder, network).fill(site, 3) as filled, node_of(site, folder, network) as added:
        added.fill(site)
        for netns in site.pods(3):
            added.one("ADD", attached_to(netns))

        assert shape(filled.node) == shape(added.node)
        next_pods = [attached_to(site.namespace()) for _ in range(2)]
        for node, pod in zip((filled, added), next_pods, strict=True):
            node.one("ADD", pod)
    (first, second) = [pod.result["ips"] for pod in next_pods if pod.result]
    assert first == second


def test_a_network_without_room_is_not_filled(site: Site, direct_bin_dir: Path) -> None:
    network = parse_network_list(json.dumps(bridge_network("narrow", subnet="10.77.0.0/28")).encode())
    with node_of(site, direct_bin_dir, network) as node:
        standing = attached_to(site.namespace())
        node.one("ADD", standing)

        with pytest.raises(PopulationError, match="room for 12 pods more, not for 13"):
            populate(node.node, network, standing, 13)
        populate(node.node, network, standing, 12)
