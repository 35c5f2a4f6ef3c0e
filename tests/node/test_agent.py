"""Agents at work: they follow changes of Nodes and of the kernel at once, and nothing else wakes them."""

import functools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent import loop
from agent.agent import Agent
from agent.cluster import Cluster
from agent.kernel import PROTOCOL
from agent.loop import serve
from agent.options import Options
from agent.peers import ClusterNode, tunnel_mac
from agent.plan import TUNNEL, Backend
from agent.sources import ManifestNodes, NodeSource
from netlink.namespace import open_namespace
from tests.nodes import Node, until, veth_between

pytestmark = pytest.mark.sudo


def address_of(address: str) -> dict[str, object]:
    """Return the status of a Node with one address."""
    return {"addresses": [{"type": "InternalIP", "address": address}]}


class Running:
    """Agents of nodes in one thread, and the manifests that they follow."""

    def __init__(self, folder: Path, nodes: Sequence[Node], backend: Backend) -> None:
        self.folder = folder
        self.nodes = nodes
        self.told: dict[str, list[str]] = {}
        self.comparisons: list[str] = []
        self._backend = backend
        self._stop = os.eventfd(0)
        folder.mkdir()

    def write(self, number: int, **changes: Any) -> None:
        """Write a Node; the rest of the cluster learns of it."""
        content = {
            "kind": "Node",
            "metadata": {"name": f"node-{number}"},
            "spec": {"podCIDRs": [f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"]},
            "status": address_of(f"192.0.2.{number + 1}"),
        }
        path = self.folder / f"node-{number}.json"
        path.with_suffix(".new").write_text(json.dumps(content | changes))
        path.with_suffix(".new").rename(path)

    @contextmanager
    def serving(self, source: NodeSource | None = None) -> Iterator["Running"]:
        """Have the agents serve for the with block; their thread's error becomes the block's."""
        with ThreadPoolExecutor(1) as executor:
            served = executor.submit(self._serve, source)
            try:
                yield self
            finally:
                os.eventfd_write(self._stop, 1)
                served.result()
                os.close(self._stop)

    def _serve(self, source: NodeSource | None) -> None:
        with ExitStack() as stack:
            agents = []
            for number, node in enumerate(self.nodes):
                with open_namespace(node.path) as namespace:
                    agents.append(stack.enter_context(Agent(Options(f"node-{number}", self._backend), namespace)))
            serve(source or ManifestNodes(self.folder), Cluster(), agents, self._stop, self._tell)

    def _tell(self, agent: Agent, problems: list[str]) -> None:
        self.comparisons.append(agent.options.node)
        self.told[agent.options.node] = problems

    def destinations(self, number: int) -> set[str]:
        found: list[Mapping[str, Any]] = []
        for family in ("-4", "-6"):
            found += self.nodes[number].ip(family, "route", "show", "proto", str(PROTOCOL))
        return {route["dst"] for route in found}


@pytest.fixture(autouse=True)
def announced_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No comparison each minute: announcements alone wake agents."""
    monkeypatch.setattr(loop, "COMPARE", math.inf)


@pytest.fixture(params=[Backend.AUTO, Backend.VXLAN])
def running(request: pytest.FixtureRequest, make_node: Callable[[], Node], tmp_path: Path) -> Iterator[Running]:
    """Two nodes with agents, and manifests of both."""
    nodes = [make_node(), make_node()]
    veth_between(nodes[0], nodes[1])
    for node in nodes:
        node.run(["sysctl", "-qw", "net.ipv6.conf.uplink0.keep_addr_on_down=1"])
    cluster = Running(tmp_path / "nodes", nodes, request.param)
    for number in range(2):
        cluster.write(number)
    with cluster.serving():
        yield cluster


OTHER = {"10.244.1.0/24", "fd00:10:244:1::/64"}


def test_agents_make_routes_at_their_start_and_follow_nodes(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER and len(running.destinations(1)) == 2)

    running.write(7, status=address_of("192.0.2.200"))
    until(lambda: "10.244.7.0/24" in running.destinations(0) & running.destinations(1))
    running.write(
        7,
        spec={"podCIDRs": ["10.244.8.0/24"]},
        status=address_of("192.0.2.200"),
    )
    until(lambda: running.destinations(0) == OTHER | {"10.244.8.0/24"})
    (running.folder / "node-7.json").unlink()

    until(lambda: running.destinations(0) == OTHER and len(running.destinations(1)) == 2)
    assert running.told["node-0"] == []


DAMAGES = {
    "routes flushed": ["ip", "route", "flush", "proto", str(PROTOCOL)],
    "IPv6 routes flushed": ["ip", "-6", "route", "flush", "proto", str(PROTOCOL)],
    "another gateway": ["ip", "route", "change", "10.244.1.0/24", "via", "192.0.2.9", "proto", str(PROTOCOL)],
    "one route more": ["ip", "route", "add", "10.244.9.0/24", "via", "192.0.2.9", "proto", str(PROTOCOL)],
    "uplink down and up": ["sh", "-c", "ip link set uplink0 down; ip link set uplink0 up"],
    "tunnel deleted": ["ip", "link", "del", TUNNEL],
    "tunnel down": ["ip", "link", "set", TUNNEL, "down"],
    "tunnel's MTU": ["ip", "link", "set", TUNNEL, "mtu", "1300"],
    "neighbour deleted": ["ip", "neigh", "del", "fd00:10:244:1::", "dev", TUNNEL],
    "forwarding deleted": ["bridge", "fdb", "del", tunnel_mac("node-1"), "dev", TUNNEL],
    "another end": [
        "bridge",
        "fdb",
        "replace",
        tunnel_mac("node-1"),
        "dev",
        TUNNEL,
        "dst",
        "192.0.2.9",
        "self",
        "permanent",
    ],
    "one end more": [
        "bridge",
        "fdb",
        "append",
        "02:00:00:00:00:09",
        "dev",
        TUNNEL,
        "dst",
        "192.0.2.9",
        "self",
        "permanent",
    ],
}


@pytest.mark.mostly_slow(4, "each loss; a part is in make test")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_loss_is_made_good_at_its_announcement(running: Running, damage: str) -> None:
    node = running.nodes[0]
    until(lambda: running.destinations(0) == OTHER)
    wait_for_quiet(running)
    before = node.state()

    node.run(DAMAGES[damage])

    until(lambda: not differs(node, before), within=30)
    assert running.told["node-0"] == []


@pytest.mark.parametrize("keeps_ipv6_addresses", ["1", "0"])
def test_a_link_that_is_down_gets_no_tunnel_in_its_place(
    make_node: Callable[[], Node], tmp_path: Path, keeps_ipv6_addresses: str
) -> None:
    nodes = [make_node(), make_node()]
    veth_between(nodes[0], nodes[1])
    nodes[0].run(["sysctl", "-qw", f"net.ipv6.conf.uplink0.keep_addr_on_down={keeps_ipv6_addresses}"])
    cluster = Running(tmp_path / "nodes", nodes[:1], Backend.AUTO)
    for number in range(2):
        cluster.write(number)
    with cluster.serving():
        until(lambda: cluster.destinations(0) == OTHER)

        nodes[0].run(["ip", "link", "set", "uplink0", "down"])
        until(lambda: len(cluster.told["node-0"]) == len(OTHER))
        assert cluster.told["node-0"] == [
            "Node node-1: no direct route to 10.244.1.0/24: the link uplink0 is down",
            "Node node-1: no direct route to fd00:10:244:1::/64: the link uplink0 is down",
        ]
        assert nodes[0].ip("link", "show", "type", "vxlan") == []

        nodes[0].run(["ip", "link", "set", "uplink0", "up"])
        nodes[0].run(["ip", "address", "replace", "2001:db8::1/64", "dev", "uplink0", "nodad"])
        until(lambda: cluster.destinations(0) == OTHER and cluster.told["node-0"] == [])


def differs(node: Node, before: Any) -> bool:
    try:
        node.assert_same_state(before)
    except AssertionError:
        return True
    return False


def wait_for_quiet(running: Running) -> None:
    """Wait until no agent has compared for half a second."""
    seen = -1
    while seen != len(running.comparisons):
        seen = len(running.comparisons)
        time.sleep(0.5)


def test_an_agents_own_changes_and_a_pods_do_not_wake_it(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)
    wait_for_quiet(running)
    seen = len(running.comparisons)

    running.write(7, status=address_of("192.0.2.200"))
    until(lambda: "10.244.7.0/24" in running.destinations(0) & running.destinations(1))
    pod = running.nodes[0].pod_namespace("pod").rpartition("/")[2]
    running.nodes[0].run(["ip", "link", "add", "veth-pod", "type", "veth", "peer", "name", "eth0", "netns", pod])
    running.nodes[0].run(["ip", "link", "set", "veth-pod", "up"])
    running.nodes[0].run(["ip", "route", "add", "10.244.0.9/32", "dev", "veth-pod"])
    running.nodes[0].run(["ip", "neigh", "add", "192.0.2.77", "lladdr", "02:00:00:00:00:77", "dev", "uplink0"])
    wait_for_quiet(running)

    assert sorted(running.comparisons[seen:]) == ["node-0", "node-1"]


def test_an_overlapping_node_is_refused_and_the_others_go_on(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)

    running.write(
        7,
        spec={"podCIDRs": ["10.244.1.128/25", "10.244.9.0/24"]},
        status=address_of("192.0.2.9"),
    )

    until(lambda: running.destinations(0) == OTHER | {"10.244.9.0/24"})
    until(
        lambda: (
            running.told["node-0"] == ["Node node-7: podCIDR '10.244.1.128/25' overlaps 10.244.1.0/24 of Node node-1"]
        )
    )


def test_a_broken_manifest_changes_nothing_and_is_a_problem(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)

    for content, words in (("", "no object in it"), ("{", "not JSON"), ('{"kind": "Node"}', "a Node without a name")):
        (running.folder / "node-1.json").write_text(content)

        until(functools.partial(is_told, running, f"node-1.json: {words}"))
        assert running.destinations(0) == OTHER


def is_told(running: Running, words: str) -> bool:
    return any(words in each for each in running.told["node-0"])


def test_leftovers_of_nodes_that_went_meanwhile_go_at_the_start(make_node: Callable[[], Node], tmp_path: Path) -> None:
    nodes = [make_node(), make_node()]
    veth_between(nodes[0], nodes[1])
    for number in range(2, 9):
        nodes[0].run(["ip", "route", "add", f"10.244.{number}.0/24", "via", "192.0.2.9", "proto", str(PROTOCOL)])
    cluster = Running(tmp_path / "nodes", nodes[:1], Backend.HOST_GW)
    for number in range(2):
        cluster.write(number, spec={"podCIDRs": [f"10.244.{number}.0/24"]})

    with cluster.serving():
        until(lambda: cluster.destinations(0) == {"10.244.1.0/24"})

    assert cluster.destinations(0) == {"10.244.1.0/24"}


class Unknown:
    """A source whose Nodes are not known yet; it counts the looks."""

    def __init__(self) -> None:
        self.looks = 0

    def fileno(self) -> int | None:
        return None

    def poll(self) -> bool:
        self.looks += 1
        return False

    def nodes(self) -> list[ClusterNode] | None:
        return None

    @property
    def problems(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


def test_announcements_before_the_nodes_are_known_are_read_and_change_nothing(
    make_node: Callable[[], Node], tmp_path: Path
) -> None:
    node, source = make_node(), Unknown()
    with Running(tmp_path / "nodes", [node], Backend.AUTO).serving(source):
        until(lambda: source.looks)
        node.run(["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"])
        seen = source.looks
        until(lambda: source.looks >= seen + 2)

        # Looks are half a second apart; an announcement that stays unread would wake the loop at once.
        assert source.looks <= seen + 4
    assert node.ip("route", "show", "proto", str(PROTOCOL)) == []


def test_a_folder_of_manifests_that_goes_keeps_the_routes(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)

    running.folder.rename(running.folder.with_name("away"))

    until(lambda: is_told(running, "No such file or directory"))
    assert running.destinations(0) == OTHER
    running.folder.with_name("away").rename(running.folder)
    until(lambda: running.told["node-0"] == [])


def test_a_problem_ends_when_it_is_corrected(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)

    for claim, word in (("0.0.0.0/0", "a default route"), ("224.0.0.0/8", "multicast")):
        running.write(7, spec={"podCIDRs": [claim]})
        until(functools.partial(is_told, running, f"{claim}' is {word}"))
        assert len(running.told["node-0"]) == 1
    (running.folder / "node-7.json").unlink()
    until(lambda: running.told["node-0"] == [])


def test_a_route_in_the_way_is_a_problem_until_it_goes(running: Running) -> None:
    node, route = running.nodes[0], ["10.244.1.0/25", "via", "192.0.2.9"]
    until(lambda: running.destinations(0) == OTHER)
    node.run(["ip", "route", "add", *route])
    until(lambda: is_told(running, "route 10.244.1.0/25 via 192.0.2.9 of boot takes packets"))

    running.write(7, spec={"podCIDRs": ["10.244.7.0/24"]}, status=address_of("192.0.2.200"))
    until(lambda: "10.244.7.0/24" in running.destinations(0))
    assert is_told(running, "takes packets")

    node.run(["ip", "route", "del", *route])
    until(lambda: running.told["node-0"] == [])


def test_routes_that_lead_to_no_node_and_no_pod_of_another_wake_no_agent(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)
    wait_for_quiet(running)
    seen = len(running.comparisons)

    for number in range(20):
        running.nodes[0].run(["ip", "route", "add", f"203.0.113.{number}/32", "dev", "uplink0"])
    wait_for_quiet(running)

    assert len(running.comparisons) == seen


def test_routes_stay_if_the_own_node_goes(running: Running) -> None:
    until(lambda: running.destinations(0) == OTHER)

    (running.folder / "node-0.json").unlink()

    until(lambda: is_told(running, "Node node-0: there is no such Node"))
    assert running.destinations(0) == OTHER
