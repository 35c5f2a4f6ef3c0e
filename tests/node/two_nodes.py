"""Two nodes on one wire, with an agent's routes or tunnels between them, and a pod on each."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.options import Options
from agent.peers import ClusterNode, judge
from agent.plan import Backend
from harness.runtime.node import Node as NamedNode
from harness.views.attachments import known_attachments
from harness.views.diagnosis import Scope, diagnose
from harness.views.nft_values import Packet
from harness.views.node_state import Fault
from harness.views.path import PathResult, find_path
from harness.views.path_network import PathNamespaces
from netlink.namespace import open_namespace
from tests.cli import Cli, bridge_network
from tests.nodes import Node, veth_between

DIRECT, TUNNELLED = "direct", "tunnelled"
ANY = {4: ip_address("0.0.0.0"), 6: ip_address("::")}
ICMP = {4: 1, 6: 58}


class TwoNodes:
    """Number 0 has pod0 in 10.244.0.0/24, number 1 has pod1 in 10.244.1.0/24. On a wire, they have 192.0.2.1 and .2."""

    def __init__(
        self, nodes: list[Node], addresses: list[tuple[str, ...]], clis: list[Cli], agents: list[Agent]
    ) -> None:
        self.nodes = nodes
        self._addresses = addresses
        self.clis = clis
        self._agents = agents
        self._named = [NamedNode(cli.node, cli.state_dir) for cli in clis]
        self.pods = [cli.add(f"pod{number}")[0] for number, cli in enumerate(clis)]

    def reconcile(self) -> None:
        """Make the routes and the tunnels."""
        members = [
            ClusterNode(cli.node, "", (f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"), addresses)
            for number, (cli, addresses) in enumerate(zip(self.clis, self._addresses, strict=True))
        ]
        for agent, cli in zip(self._agents, self.clis, strict=True):
            assert agent.reconcile(judge(members, cli.node)).problems == []

    def address(self, number: int, version: int = 4) -> str:
        """A pod's address."""
        ips = self.pods[number]["networks"][0]["result"]["ips"]
        found = (ip_address(each["address"].partition("/")[0]) for each in ips)
        return str(next(each for each in found if each.version == version))

    def path(self, version: int = 4, size: int = 0) -> PathResult:
        """The way of a ping from the first pod to the second."""
        first, second = ((node, known_attachments(node, warn=print)) for node in self._named)
        packet = Packet(ANY[version], ip_address(self.address(1, version)), ICMP[version], None)
        with closing(PathNamespaces(*first, second)) as namespaces:
            return find_path(namespaces, namespaces.places[f"{namespaces.nodes[0]}/pod0"], packet, size)

    def is_answered(self, version: int = 4, size: int = 56, *, wait: float = 5) -> bool:
        """Send a ping of `size` bytes of data from the first pod to the second, which no router may fragment."""
        ping = ["ping", "-c1", f"-W{wait}", "-Mdo", f"-s{size}", self.address(1, version)]
        command = ["ip", "netns", "exec", Path(self.pods[0]["netns"]).name, *ping]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def diagnose(self, number: int) -> list[Fault]:
        """The faults of a node, looked for twice without a pause."""
        scope = Scope(self._named[number], [self.clis[number].bin_dir], self.clis[number].conf_dir)
        return diagnose(scope, warn=print, pause=lambda _: None)[0]


def by_wire(one: Node, other: Node) -> list[tuple[str, ...]]:
    """Connect two nodes, and return the addresses of each. The IPv6 ones stay if the link goes down."""
    wire = veth_between(one, other)
    for node in (one, other):
        quick = ("conf.uplink0.accept_dad=0", "conf.uplink0.keep_addr_on_down=1", "conf.default.accept_dad=0")
        node.run(["sysctl", "-qw", *(f"net.ipv6.{each}" for each in quick)])
    return [*zip(wire.ipv4, wire.ipv6, strict=True)]


@contextmanager
def two_nodes(
    folder: Path,
    bin_dir: Path,
    backend: Backend,
    *,
    connect: Callable[[Node, Node], list[tuple[str, ...]]] = by_wire,
    keys: Mapping[str, Any] | None = None,
) -> Iterator[TwoNodes]:
    """Make the nodes, each with a pod on a bridge with further `keys`; they go with the with block."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(closing(Node(folder))) for _ in range(2)]
        addresses = connect(*nodes)
        clis, agents = [], []
        for number, node in enumerate(nodes):
            cli = stack.enter_context(closing(Cli(folder / f"cli{number}", bin_dir)))
            cli.node, cli.state_dir = node.name, folder / "state"
            cli.node_dir = cli.state_dir / "nodes" / node.name
            cli.var_lib_cni = cli.node_dir / "var-lib-cni"
            cli.environment |= {"CNI_HARNESS_STATE_DIR": str(cli.state_dir), "CNI_HARNESS_NODE": node.name}
            network = bridge_network("net", subnet=f"10.244.{number}.0/24", **(keys or {}))
            network["plugins"][0]["ipam"]["ranges"].append([{"subnet": f"fd00:10:244:{number}::/64"}])
            cli.configure(network)
            clis.append(cli)
            with open_namespace(node.path) as namespace:
                agents.append(stack.enter_context(Agent(Options(node.name, backend), namespace)))
        made = TwoNodes(nodes, addresses, clis, agents)
        made.reconcile()
        yield made


@contextmanager
def both_ways(
    folder: Path, bin_dir: Path, keys: Mapping[str, Any] | None = None, pods_mtu: int = 0
) -> Iterator[dict[str, TwoNodes]]:
    """Make two nodes with direct routes, and two with tunnels, whose pods may have another MTU."""
    further = {**(keys or {}), **({"mtu": pods_mtu} if pods_mtu else {})}
    with (
        two_nodes(folder / DIRECT, bin_dir, Backend.HOST_GW, keys=keys) as direct,
        two_nodes(folder / TUNNELLED, bin_dir, Backend.VXLAN, keys=further) as tunnelled,
    ):
        yield {DIRECT: direct, TUNNELLED: tunnelled}
