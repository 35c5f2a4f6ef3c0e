"""Agents of three Nodes of a real API server, with the ranges that kube-controller-manager gives them.

Two nodes are on one link, the third is behind a router: so packets go directly, and through tunnels.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_network
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from agent.agent import Agent
from agent.cluster import Cluster
from agent.kernel import PROTOCOL
from agent.loop import serve
from agent.options import Options
from agent.plan import TUNNEL
from agent.sources import ApiNodes
from kube.client import APPLY_PATCH, NAMESPACES, NODES, PODS, Client, Object, Resource, Selection
from kube.config import ClusterConfig, from_kubeconfig
from kube.errors import ApiError
from netlink.namespace import open_namespace
from tests.cli import ROOT, VERSION
from tests.kubernetes.control_plane import CLUSTER_CIDRS, ControlPlane
from tests.nodes import Node, until, until_usable, veth_between

EXAMPLE: Final = ROOT / "docs" / "examples" / "agent.yaml"
SERVICE_ACCOUNTS: Final = Resource("v1", "serviceaccounts")
DAEMON_SETS: Final = Resource("apps/v1", "daemonsets")
RESOURCES: Final = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": Resource("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "DaemonSet": DAEMON_SETS,
}
NAMESPACE: Final = "cni-harness"
ACCOUNT: Final = "agent"
SECONDS: Final = 60.0
NEAR: Final = ("192.0.2.254", "2001:db8::fe")
FAR: Final = ("203.0.113.1", "2001:db8:2::1")
"""The addresses of the router on its two networks."""


class Member:
    """A node of the cluster: its Node of the API, a test node, and an agent in a thread."""

    def __init__(self, client: Client, node: Node, name: str, addresses: Sequence[str]) -> None:
        self.node = node
        self.name = name
        self.pod = ""
        self.pod_addresses: list[str] = []
        self.problems: list[str] = []
        self.source: ApiNodes
        self._client = client
        self._addresses = addresses

    def register(self) -> None:
        """Make the Node, and wait for its ranges."""
        self._client.create(NODES, {"metadata": {"name": self.name}})
        addresses = [{"type": "InternalIP", "address": each} for each in self._addresses]
        self._client.patch(NODES, self.name, {"status": {"addresses": addresses}}, subresource="status")
        until(lambda: len(self.pod_cidrs()) == 2, within=SECONDS)

    def pod_cidrs(self) -> list[str]:
        spec = self._client.get(NODES, self.name)["spec"]
        return list(spec.get("podCIDRs", ()))

    @contextmanager
    def serving(self, config: ClusterConfig) -> Iterator[None]:
        """Have the agent serve for the with block; its thread's error becomes the block's."""
        stop = os.eventfd(0)
        with ExitStack() as stack:
            stack.callback(os.close, stop)
            self.source = stack.enter_context(closing(ApiNodes(config)))
            with open_namespace(self.node.path) as namespace:
                agent = stack.enter_context(Agent(Options(self.name), namespace))
            executor = stack.enter_context(ThreadPoolExecutor(1))
            cluster = Cluster([ip_network(each) for each in CLUSTER_CIDRS])
            served = executor.submit(serve, self.source, cluster, [agent], stop, self._tell)
            try:
                yield
            finally:
                os.eventfd_write(stop, 1)
                served.result()

    def _tell(self, _agent: Agent, problems: list[str]) -> None:
        self.problems = problems

    def add_pod(self, bin_dir: Path) -> None:
        """Give the node a pod by our bridge plugin."""
        ranges = [[{"subnet": each}] for each in self.pod_cidrs()]
        routes = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
        config = {"cniVersion": "1.1.0", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": True}
        ipam = {"type": "host-local", "ranges": ranges, "routes": routes}
        self.pod = self.node.pod_namespace("pod")
        added = self.node.plugin(
            bin_dir, "bridge", "ADD", {**config, "ipam": ipam}, container_id="pod", ifname="eth0", netns=self.pod
        )
        assert added.code == 0, added
        self.pod_addresses = [each["address"].partition("/")[0] for each in added.stdout["ips"]]

    def routes(self) -> dict[str, str]:
        """The links of the agent's routes, by their destinations."""
        found: list[Any] = []
        for family in ("-4", "-6"):
            found += self.node.ip(family, "route", "show", "proto", str(PROTOCOL))
        return {route["dst"]: route["dev"] for route in found}


def leads_to(member: Member, others: Sequence[Member]) -> bool:
    """Tell whether a node has routes to the ranges of other nodes, and no more."""
    return member.routes().keys() == {cidr for each in others for cidr in each.pod_cidrs()}


def assert_reached(members: Sequence[Member]) -> None:
    """Ping from each pod to those of all other nodes, by both families; a bridge takes a moment to forward."""
    for one, other in permutations(members, 2):
        for address in other.pod_addresses:
            command = ["ping", "-c1", "-W2", address]
            until(lambda: one.node.run(command, netns=one.pod, check=False).returncode == 0, within=SECONDS)  # noqa: B023 -- called at once


def example() -> list[Object]:
    return list(yaml.safe_load_all(EXAMPLE.read_text()))


def apply(client: Client, content: Object, **query: str) -> Object:
    """Apply an object as `kubectl apply --server-side` does; an unknown key is an error."""
    metadata = content["metadata"]
    query |= {"fieldManager": "test", "fieldValidation": "Strict"}
    resource, namespace = RESOURCES[content["kind"]], metadata.get("namespace", "")
    return client.patch(resource, metadata["name"], content, namespace, kind=APPLY_PATCH, query=query)


@pytest.fixture
def account(control_plane: ControlPlane, client: Client) -> ClusterConfig:
    """The credentials of the example's service account, with the rights that the example gives it."""
    for content in example():
        if content["kind"] != "DaemonSet":
            apply(client, content)
    made = client.create(SERVICE_ACCOUNTS, {"spec": {}}, NAMESPACE, ACCOUNT, "token")
    return from_kubeconfig(control_plane.write_kubeconfig("example", {"token": made["status"]["token"]}))


@pytest.fixture
def members(
    client: Client, make_node: Callable[[], Node], account: ClusterConfig, direct_bin_dir: Path
) -> Iterator[list[Member]]:
    """Three nodes with an agent and a pod each."""
    nodes = [make_node() for _ in range(3)]
    join(nodes, make_node())
    ends = [("192.0.2.1", "2001:db8::1"), ("192.0.2.2", "2001:db8::2"), ("203.0.113.2", "2001:db8:2::2")]
    members = [
        Member(client, node, f"agent-{number}", addresses)
        for number, (node, addresses) in enumerate(zip(nodes, ends, strict=True))
    ]
    with ExitStack() as stack:
        for member in members:
            member.register()
            stack.callback(client.delete, NODES, member.name)
            stack.enter_context(member.serving(account))
        for member in members:
            others = [each for each in members if each is not member]
            until(lambda: leads_to(member, others), within=SECONDS)  # noqa: B023 -- called at once
            member.add_pod(direct_bin_dir)
        yield members


def join(nodes: Sequence[Node], router: Node) -> None:
    """Put two nodes on the router's bridge, 192.0.2.0/24 and 2001:db8::/64, and the third on another network of it."""
    *near, far = nodes
    router.run(["ip", "link", "add", "lan0", "up", "type", "bridge"])
    for address in ("192.0.2.254/24", "2001:db8::fe/64"):
        router.run(["ip", "address", "add", address, "dev", "lan0", "nodad"])
    for number, node in enumerate(near, 1):
        port = f"port{number}"
        node.run(["ip", "link", "add", "uplink0", "type", "veth", "peer", "name", port, "netns", router.name])
        router.run(["ip", "link", "set", port, "master", "lan0", "up"])
        for address in (f"192.0.2.{number}/24", f"2001:db8::{number}/64"):
            node.run(["ip", "address", "add", address, "dev", "uplink0", "nodad"])
        node.run(["ip", "link", "set", "uplink0", "up"])
        until_usable(node, "uplink0")
    veth_between(router, far, 2)
    router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])
    for node, gateways in ((near[0], NEAR), (near[1], NEAR), (far, FAR)):
        for gateway in gateways:
            node.run(["ip", "route", "add", "default", "via", gateway])


def test_pods_of_all_nodes_reach_each_other_directly_and_by_the_tunnel(members: list[Member]) -> None:
    assert_reached(members)

    ways = [set(member.routes().values()) for member in members]
    assert ways == [{"uplink0", TUNNEL}, {"uplink0", TUNNEL}, {TUNNEL}]
    assert [member.problems for member in members] == [[], [], []]


def test_routes_of_a_deleted_node_go_and_a_new_node_of_its_name_gets_routes(
    client: Client, members: list[Member]
) -> None:
    one, other, far = members
    client.delete(NODES, far.name)
    until(lambda: leads_to(one, [other]) and leads_to(other, [one]), within=SECONDS)
    assert one.node.ip("link", "show", "type", "vxlan") == []
    assert len(far.routes()) == 4  # without its own Node an agent changes nothing

    far.register()
    until(lambda: leads_to(one, [other, far]) and leads_to(other, [one, far]), within=SECONDS)
    assert TUNNEL in one.routes().values()
    assert_reached([one, other])


def test_routes_stay_while_the_api_server_is_away_and_follow_nodes_when_it_is_back(
    control_plane: ControlPlane, client: Client, members: list[Member]
) -> None:
    one, other, far = members
    before = one.routes()
    with one.node.background(["ip", "monitor", "route"]) as monitor:
        control_plane.end("kube-controller-manager")
        control_plane.end("kube-apiserver", kill=True)
        until(lambda: "refused" in " ".join(one.problems), within=SECONDS)
        assert_reached(members)
        control_plane.start_api_server()
        control_plane.start_controllers()
        until(lambda: not one.problems, within=SECONDS)
        monitor.terminate()
        assert monitor.stdout is not None
        assert f"proto {PROTOCOL}" not in monitor.stdout.read()
    assert one.routes() == before

    client.delete(NODES, far.name)
    until(lambda: leads_to(one, [other]) and leads_to(other, [one]), within=SECONDS)
    far.register()
    until(lambda: leads_to(one, [other, far]), within=SECONDS)


def test_a_route_that_goes_while_the_api_server_is_away_comes_back(
    control_plane: ControlPlane, members: list[Member]
) -> None:
    one = members[0]
    before = one.routes()
    control_plane.end("kube-controller-manager")
    control_plane.end("kube-apiserver", kill=True)
    try:
        one.node.run(["ip", "route", "flush", "proto", str(PROTOCOL)])

        until(lambda: one.routes() == before, within=SECONDS)
    finally:
        control_plane.start_api_server()
        control_plane.start_controllers()


def test_the_account_of_the_example_may_read_nodes_and_do_no_more(client: Client, account: ClusterConfig) -> None:
    client.create(NODES, {"metadata": {"name": "read"}})

    with closing(Client(account)) as agent:
        assert agent.get(NODES, "read")["metadata"]["name"] == "read"
        for attempt in (
            lambda: agent.list_all(PODS),
            lambda: agent.patch(NODES, "read", {"metadata": {"labels": {"a": "b"}}}),
            lambda: agent.delete(NODES, "read"),
        ):
            with pytest.raises(ApiError, match="403 Forbidden"):
                attempt()
    client.delete(NODES, "read")


def test_the_verb_reads_the_nodes_of_a_kubeconfig(control_plane: ControlPlane, client: Client, tmp_path: Path) -> None:
    client.create(NODES, {"metadata": {"name": "dry"}, "spec": {"podCIDRs": ["10.244.77.0/24"]}})
    addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
    client.patch(NODES, "dry", {"status": {"addresses": addresses}}, subresource="status")
    kubeconfig = control_plane.write_kubeconfig("dry", {"token": "wrong"})
    command = [sys.executable, "-m", "harness.cli.main", f"--state-dir={tmp_path}", "agent", "--node-name=dry"]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options, "--dry-run", "-o", "json"], cwd=ROOT, capture_output=True, text=True, check=False
        )

    ran = run(f"--kubeconfig={control_plane.admin}")
    refused = run(f"--kubeconfig={kubeconfig}")

    assert ran.returncode in {0, 1}, ran.stderr
    assert "Node dry: no link of this node has one of its addresses (192.0.2.1)" in json.loads(ran.stdout)["problems"]
    assert refused.returncode == 2
    assert "401 Unauthorized" in refused.stderr
    client.delete(NODES, "dry")


def test_the_example_is_applied_and_its_daemon_set_makes_a_pod_on_a_node_with_any_taint(client: Client) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    client.create(
        NODES, {"metadata": {"name": "tainted", "labels": {"kubernetes.io/os": "linux"}}, "spec": {"taints": [taint]}}
    )
    for content in example():
        apply(client, content)

    [pod] = until(lambda: client.list_all(PODS, Selection(NAMESPACE)), within=SECONDS)

    spec, [container] = pod["spec"], pod["spec"]["containers"]
    assert (spec["priorityClassName"], spec["priority"]) == ("system-node-critical", 2000001000)
    assert {"operator": "Exists"} in spec["tolerations"]
    assert (spec["hostNetwork"], spec["serviceAccountName"]) == (True, ACCOUNT)
    assert container["securityContext"]["capabilities"] == {"add": ["NET_ADMIN"], "drop": ["ALL"]}
    client.delete(DAEMON_SETS, "agent", NAMESPACE, {"propagationPolicy": "Background"})
    client.delete(NODES, "tainted")


def test_the_image_of_the_example_is_built_on_this_versions_image() -> None:
    lines = EXAMPLE.with_name("Containerfile").read_text().splitlines()
    [daemon_set] = [each for each in example() if each["kind"] == "DaemonSet"]

    assert f"FROM localhost/cni-harness:{VERSION}" in lines
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"localhost/cni-harness-agent:{VERSION}"
