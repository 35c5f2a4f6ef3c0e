"""The project's own bench: every loop runs, nothing of it is left, and its floor does an ADD's and a DEL's work."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.bench.attachments import attached_to
from harness.bench.suite_node import SuiteNode
from harness.bench.suites import BenchSuite, default_networks
from harness.runtime.site import Site
from tests.nodes import HANG
from tools.bench.rows import Extent, rows
from tools.bench.run import measure
from tools.bench.subjects import FLOOR, subjects

pytestmark = [pytest.mark.sudo, pytest.mark.slow("it measures each row; test_bench measures one in make test")]

TINY = Extent(
    rounds=1, batches=1, batch=2, repetitions=1, at_once=3, gone_at_once=2, elements=(3,), records=3, timeout=HANG
)


@pytest.fixture
def suites() -> Iterator[Mapping[str, BenchSuite]]:
    with subjects() as made:
        yield made


def made_by(runs: list[str]) -> list[Path]:
    """The namespaces, sockets and control groups of nodes with these names."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    groups = [Path(path) for _, path, kind, *_ in mounts if kind in {"cgroup", "cgroup2"}]
    return [
        path
        for folder in (Path("/run"), Path("/run/netns"), *groups)
        for run in runs
        for path in folder.glob(f"{run}*")
    ]


@pytest.mark.time_limit(600, "it measures each row of the bench")
def test_every_row_is_measured_and_nothing_is_left(
    suites: Mapping[str, BenchSuite], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = measure(suites, TINY, tmp_path)

    printed, said = capsys.readouterr()
    names = re.findall(r"nodes (bench-[0-9a-f]{8})-N", said)
    assert [each.row for each in run.results] == rows(TINY)
    assert all(0 < each.ours_lower <= each.ours < HANG for each in run.results)
    assert all(0 < each.theirs_lower <= each.theirs < HANG for each in run.results)
    assert all(each.row.work in printed for each in run.results)
    assert len(names) == len({row.loop for row in rows(TINY)})
    assert made_by(names) == []
    assert not (tmp_path / "nodes").exists()


def in_namespace(name: str, *args: str) -> list[dict[str, Any]]:
    """What `ip` lists in a named network namespace, as JSON."""
    command = ["ip", "-n", Path(name).name, "-details", "-json", *args]
    listed: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return listed


def test_bench_floor_adds_and_removes_an_interface(suites: Mapping[str, BenchSuite], tmp_path: Path) -> None:
    with (
        Site(tmp_path, "bench") as site,
        SuiteNode(site, suites[FLOOR], default_networks()[0], timeout=HANG, counted=False) as node,
    ):
        name = node.node.name or ""
        reservations = node.node.var_lib_cni / "networks" / "bench"
        pods = [attached_to(site.namespace()) for _ in range(3)]
        node.at_once("ADD", pods)
        given = {}
        for pod in pods:
            (eth0,) = [link for link in in_namespace(pod.attachment.netns, "address") if link["ifname"] == "eth0"]
            (own,) = [address for address in eth0["addr_info"] if address["family"] == "inet"]
            given[own["local"]] = pod.attachment.container_id
            assert {"UP", "LOWER_UP"} <= set(eth0["flags"])
            assert pod.result is not None
            assert pod.result["ips"] == [{"address": f"{own['local']}/16"}]
            (default,) = in_namespace(pod.attachment.netns, "route", "show", "default")
            assert default["gateway"] == "10.80.0.1"
        ports = [link for link in in_namespace(name, "link") if link.get("master") == "bench0"]
        assert len(ports) == len(given) == 3
        assert all("UP" in port["flags"] for port in ports)
        reserved = {path.name: path.read_text().split()[0] for path in reservations.iterdir()}
        assert reserved == given

        node.at_once("DEL", pods)

        assert [link["ifname"] for link in in_namespace(name, "link")] == ["lo", "bench0"]
        assert list(reservations.iterdir()) == []
