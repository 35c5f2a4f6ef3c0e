"""`gc` on a host that other runtimes use: leftovers are named, then freed; nothing that may live is touched."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import create_namespace, remove_namespace
from plugins.attach.host_veth import host_veth_name
from tests.cli import REFERENCE_BIN_DIR, ROOT
from tests.nodes import Node, until

pytestmark = pytest.mark.sudo

_SUBNETS = f"10.{100 + os.getpid() % 100}"
"""Namespaces of other tests, which run beside this one, must not have the addresses of its leftovers."""
VERSIONS = {"n040": "0.4.0", "n100": "1.0.0", "n110": "1.1.0"}
_numbers = itertools.count(1)


def network(name: str) -> dict[str, Any]:
    number = list(VERSIONS).index(name)
    ipam = {"type": "host-local", "ranges": [[{"subnet": f"{_SUBNETS}.{number}.0/24"}]]}
    bridge = {"type": "bridge", "bridge": f"{name}-0", "isGateway": True, "ipMasq": name == "n110", "ipam": ipam}
    return {"cniVersion": VERSIONS[name], "name": name, "plugins": [bridge]}


def dead(number: int) -> str:
    """Return the ID of a container that is gone."""
    return f"{number:02}dead" * 10 + "beef"


class Host:
    """A host with this program, and with a second runtime: another state folder, plugins of both suites."""

    def __init__(self, node: Node, bin_dir: Path) -> None:
        self.node = node
        self.bin_dir = bin_dir
        self.var_lib_cni = node.var_lib_cni
        for name in VERSIONS:
            (node.conf_dir / f"{name}.conflist").write_text(json.dumps(network(name)))

    def run(self, *args: str, second: bool = False, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            "PYTHONPATH": str(ROOT),
            "NETCONFPATH": str(self.node.conf_dir),
            "CNI_PATH": str(self.bin_dir),
            "CNI_HARNESS_STATE_DIR": str(self.node.folder / ("second" if second else "state")),
        }
        return self.node.run([sys.executable, "-m", "harness.cli.main", *args], env=environment, check=check)

    def gc(self, *args: str) -> tuple[dict[str, Any], str]:
        """Run gc; return its document and what it says."""
        run = self.run("gc", "-o", "json", *args)
        return json.loads(run.stdout), run.stderr

    def add_second(self, name: str, bin_dir: Path, network: str) -> dict[str, Any]:
        """Add a pod of the second runtime."""
        run = self.run("--bin-dir", str(bin_dir), "add", name, "--network", network, "-o", "json", second=True)
        [pod] = json.loads(run.stdout)["pods"]
        return dict(pod)

    def pods_of(self, documents: list[dict[str, Any]]) -> list[object]:
        """Everything of these pods on the host: addresses, files, elements of nftables; they answer to ping."""
        found: list[object] = []
        elements = json.dumps(self.node.nft())
        for pod in documents:
            cid, netns = pod["containerID"], pod["netns"]
            [link] = self.node.ip("address", "show", "dev", "eth0", netns=netns)
            [address] = [each["local"] for each in link["addr_info"] if each["family"] == "inet"]
            self.node.run(["ping", "-c", "1", "-W", "5", address])
            # Hidden files are host-local's index, which GC and ADD of other pods change.
            shown = (path for path in self.var_lib_cni.rglob("[!.]*") if path.is_file())
            files = sorted(path for path in shown if cid in path.read_text())
            found.append((cid, address, link["link_index"], files, elements.count(cid)))
        return found


@pytest.fixture
def host(node: Node, bin_dir: Path) -> Iterator[Host]:
    host = Host(node, bin_dir)
    yield host
    for record in node.folder.glob("*/pods/*/pod.json"):
        remove_namespace(json.loads(record.read_text()).get("netns", "/run/netns/none"))


def result_file(host: Host, network: str, cid: str, **keys: object) -> Path:
    path = host.var_lib_cni / "results" / f"{network}-{cid}-eth0"
    path.parent.mkdir(exist_ok=True)
    entry = {"kind": "cniCacheV1", "containerId": cid, "ifName": "eth0", "networkName": network, **keys}
    path.write_text(json.dumps(entry))
    return path


def reservation(host: Host, network: str, last: int, content: str) -> Path:
    path = host.var_lib_cni / "networks" / network / f"{_SUBNETS}.{list(VERSIONS).index(network)}.{last}"
    path.write_text(content)
    path.chmod(0o600)
    return path


def move_to_unnamed_namespace(node: Node, link: str) -> int:
    """Move a link to a network namespace without a name and without a process; return the descriptor that keeps it."""
    path = f"/run/netns/unnamed-{os.getpid()}-{next(_numbers)}"
    create_namespace(path)
    node.run(["ip", "link", "set", link, "netns", Path(path).name])
    fd = os.open(path, os.O_RDONLY)
    remove_namespace(path)
    return fd


def add_pair_with_indices_of(node: Node, link: str) -> None:
    """Add a veth pair to a namespace of its own, whose ends have the interface indices of a pair of the node."""
    [one] = node.ip("link", "show", "dev", link)
    [other] = node.ip("link", "show", "dev", one["link"])
    decoy = node.pod_namespace("decoy")
    ends = ["same1", "index", str(one["ifindex"]), "type", "veth", "peer", "same2", "index", str(other["ifindex"])]
    node.run(["ip", "link", "add", *ends], netns=decoy)


def plant(host: Host) -> tuple[dict[str, Callable[[], bool]], list[str], list[int]]:
    """Plant twelve leaks: those that are leftovers, each with a question for it, words of the others, descriptors."""
    node, ns = host.node, host.var_lib_cni
    freed: dict[str, Callable[[], bool]] = {}

    def links() -> set[str]:
        return {link["ifname"] for link in node.ip("link")}

    one = reservation(host, "n040", 201, f"{dead(1)}\r\neth0")
    two = reservation(host, "n040", 202, dead(2))
    freed |= {dead(1): one.exists, dead(2): two.exists}
    empty = reservation(host, "n040", 203, "")
    empty.chmod(0o644)
    four = result_file(host, "n100", dead(4), netns="/run/netns/cni-gone", result={"cniVersion": "1.0.0"})
    four_reserved = reservation(host, "n100", 204, f"{dead(4)}\r\neth0")
    freed[dead(4)] = lambda: four.exists() or four_reserved.exists()
    freed[dead(5)] = result_file(host, "n110", dead(5), netns="/run/netns/cni-never").exists
    freed[dead(6)] = result_file(host, "n110", dead(6)).exists
    blank = ns / "results" / f"n100-{dead(7)}-eth0"
    blank.touch()
    eight, ten = (host_veth_name(dead(number), "eth0") for number in (8, 10))
    node.run(["ip", "link", "add", eight, "type", "veth", "peer", "name", "lost8"])
    node.run(["ip", "link", "set", eight, "alias", f"n110/{dead(8)}/eth0"])
    freed[dead(8)] = lambda: eight in links()
    node.run(["ip", "link", "add", "vethdeadbee9", "type", "veth", "peer", "name", "lost9"])
    node.run(["ip", "link", "add", ten, "type", "veth", "peer", "name", "lost10"])
    node.run(["ip", "link", "set", ten, "alias", f"n110/{dead(10)}/eth0"])
    add_pair_with_indices_of(node, ten)
    fd = move_to_unnamed_namespace(node, "lost10")
    freed[dead(10)] = lambda: ten in links()
    eleven = node.pod_namespace("eleven")
    host_bridge = network("n110") | network("n110")["plugins"][0]
    added = node.plugin(host.bin_dir, "bridge", "ADD", host_bridge, container_id=dead(11), ifname="eth0", netns=eleven)
    assert added.code == 0, added
    node.run(["ip", "link", "del", host_veth_name(dead(11), "eth0")])
    for path in (ns / "networks" / "n110").iterdir():
        if path.name[0].isdigit() and dead(11) in path.read_text():
            path.unlink()
    freed[dead(11)] = lambda: dead(11) in json.dumps(node.nft())
    twelve = host.add_second("twelve", host.bin_dir, "n110")
    remove_namespace(twelve["netns"])
    cid = str(twelve["containerID"])
    freed[cid] = lambda: any(path.is_file() and cid in path.read_text() for path in ns.rglob("[!.]*"))
    named = [f"n040/{empty.name}", blank.name, "vethdeadbee9"]
    return freed, named, [fd]


def six_pods(host: Host) -> list[dict[str, Any]]:
    suites = {"n040": REFERENCE_BIN_DIR, "n100": REFERENCE_BIN_DIR, "n110": host.bin_dir}
    return [
        host.add_second(f"{name}-{number}", suite if number else host.bin_dir, name)
        for name, suite in suites.items()
        for number in (0, 1)
    ]


@pytest.mark.slow("gc twice beside another runtime; its single steps are in make test")
def test_gc_names_leaks_then_frees_leftovers_and_keeps_pods_of_another_runtime(host: Host) -> None:
    live = six_pods(host)
    before = host.pods_of(live)
    freed, named, descriptors = plant(host)

    document, said = host.gc("--dry-run")
    first = time.monotonic()
    for cid in freed:
        assert cid[:12] in said or cid in json.dumps(document["networks"]), cid
    for words in named:
        assert words in said
    assert sum(len(each["kept"]) for each in document["networks"]) == 6
    document, _ = host.gc()
    assert [each["deleted"] for each in document["networks"]] == [[], [], []]
    assert {cid for cid, is_there in freed.items() if not is_there()} == set()
    until(lambda: time.monotonic() > first + 1.1)

    document, said = host.gc("--min-age", "1")

    assert {each["containerID"] for each in itertools.chain(*(each["deleted"] for each in document["networks"]))} == {
        *freed
    }
    assert {cid for cid, is_there in freed.items() if is_there()} == set()
    assert all(words in said for words in named)
    assert [each["gcExecuted"] for each in document["networks"]] == [False, False, False]
    assert host.pods_of(live) == before
    for fd in descriptors:
        os.close(fd)


def test_gc_keeps_a_pod_of_another_runtime_that_has_lost_its_address(host: Host) -> None:
    pod = host.add_second("one", host.bin_dir, "n110")
    host.node.run(["ip", "address", "flush", "dev", "eth0"], netns=pod["netns"])

    host.gc("--min-age", "0s")
    document, _ = host.gc("--min-age", "0s")

    [network] = [each for each in document["networks"] if each["name"] == "n110"]
    assert ([each["containerID"] for each in network["kept"]], network["deleted"]) == ([pod["containerID"]], [])


@pytest.mark.slow("many rounds; the single steps are in make test")
def test_gc_beside_adds_of_another_runtime_takes_nothing(host: Host, request: pytest.FixtureRequest) -> None:
    """A sample of eight runs; 100 with --all-rows."""
    live = six_pods(host)
    before = host.pods_of(live)
    over = threading.Event()
    added: list[dict[str, Any]] = []

    def add_pods() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            names = list(VERSIONS)
            pod = host.add_second(f"busy-{number}", host.bin_dir, names[number % len(names)])
            if number % 2:
                host.run("del", f"busy-{number}", second=True)
            else:
                added.append(pod)

    thread = threading.Thread(target=add_pods)
    thread.start()
    try:
        for _ in range(100 if request.config.getoption("all_rows") else 8):
            document, _ = host.gc("--min-age", "3")
            assert [each["deleted"] for each in document["networks"]] == [[], [], []]
            assert [each["error"] for each in document["networks"]] == ["", "", ""]
    finally:
        over.set()
        thread.join()

    assert host.pods_of(live) == before
    assert len(host.pods_of(added)) == len(added) > 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_gc_starts_anew_when_a_suspect_changes(host: Host) -> None:
    host.add_second("one", host.bin_dir, "n100")
    path = reservation(host, "n100", 99, f"{dead(1)}\r\neth0")
    host.gc("--min-age", "1")
    first = time.monotonic()
    until(lambda: time.monotonic() > first + 1.1)
    path.unlink()
    path.write_text(f"{dead(1)}\r\neth0")

    document, _ = host.gc("--min-age", "1")

    assert path.exists()
    [waiting] = [each["waiting"] for each in document["networks"] if each["name"] == "n100"]
    assert 0 < waiting[0]["seconds"] <= 1


@pytest.mark.parametrize("content", ["", "{", '{"boot": "other", "seen": {}}', '{"boot": 1}', "[]"])
def test_gc_takes_a_damaged_file_of_sights_as_empty(host: Host, content: str) -> None:
    host.add_second("one", host.bin_dir, "n100")
    path = reservation(host, "n100", 99, f"{dead(1)}\r\neth0")
    state = host.node.folder / "state"
    state.mkdir(exist_ok=True)
    (state / "leftovers.json").write_text(content)

    host.gc("--min-age", "1")

    assert path.exists()
    assert dead(1) in (state / "leftovers.json").read_text()


def test_networks_shows_pods_of_another_runtime(host: Host) -> None:
    pod = host.add_second("web", host.bin_dir, "n100")
    path = reservation(host, "n100", 99, f"{dead(1)}\r\neth0")

    rows = [line.split() for line in host.run("networks", "n100").stdout.splitlines()]

    held = {row[0]: row[1:] for row in rows if row and row[0].startswith(_SUBNETS)}
    assert held[path.name][:2] == ["no", "pod"]
    [other] = [row for row in held.values() if row[-1] == pod["containerID"][:12]]
    assert other[:3] == ["default/web", "(other", "runtime)"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_diagnose_names_no_command_that_harms_a_pod_of_another_runtime(host: Host) -> None:
    host.add_second("web", host.bin_dir, "n110")
    document = json.loads(host.run("networks", "n110", "-o", "json").stdout)
    [address] = [each["address"] for each in document["reservations"]]
    for path in (host.var_lib_cni / "results").iterdir():
        path.unlink()

    faults = json.loads(host.run("diagnose", "-o", "json", check=False).stdout)["faults"]

    assert address not in {fault["subject"] for fault in faults}
    for fault in faults:
        assert "ip link del" not in fault["remedy"]
        assert "rm " not in fault["remedy"]
        if fault["check"] == "orphan-veth":
            assert "gc keeps it, since" in fault["remedy"]
    assert "orphan-veth" in {fault["check"] for fault in faults}
