"""`diagnose` names each fault of the ways to other nodes that is made by hand, and no other; sound nodes have none."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.plan import TUNNEL, Backend
from tests.node.two_nodes import DIRECT, TUNNELLED, TwoNodes, both_ways, two_nodes

pytestmark = pytest.mark.sudo


@pytest.fixture(scope="module")
def by_way(tmp_path_factory: pytest.TempPathFactory, direct_bin_dir: Path) -> Iterator[dict[str, TwoNodes]]:
    """Nodes that each test leaves sound."""
    keys = {"ipMasq": True, "ipMasqExcept": ["10.244.0.0/16", "fd00:10:244::/48"]}
    with both_ways(tmp_path_factory.mktemp("nodes"), direct_bin_dir, keys, pods_mtu=1450) as both:
        yield both


@pytest.mark.parametrize("way", [DIRECT, TUNNELLED])
def test_sound_nodes_have_no_fault(by_way: dict[str, TwoNodes], way: str) -> None:
    for number in range(2):
        assert by_way[way].diagnose(number) == []


class Damage(NamedTuple):
    """A fault of a node, the command that makes it, and the check and the words that tell it."""

    way: str
    command: str
    undo: str
    check: str
    words: str


POLICY = "nft add table inet site; nft add chain inet site c '{ type filter hook forward priority 0; policy drop; }'"
REPLIES = "nft add rule inet site c ct state established accept; nft add rule inet site c iifname net0 accept"
NO_POLICY = "nft delete table inet site"
FDB = f"$(bridge fdb show dev {TUNNEL} | grep -o '^02[^ ]*')"
MASQUERADE = (
    "nft add table ip site; nft add chain ip site c '{ type nat hook postrouting priority 90; }';"
    "nft add rule ip site c ip saddr 10.244.0.0/24 oifname != net0 masquerade"
)
DAMAGES = {
    "neighbour": Damage(
        TUNNELLED,
        f"ip neigh del 10.244.1.0 dev {TUNNEL}",
        "",
        "tunnel-entry-missing",
        "packets to 10.244.1.0/24, pods of another node, are dropped: cni-vxlan has no neighbour entry for 10.244.1.0",
    ),
    "neighbours": Damage(
        TUNNELLED,
        f"ip neigh del 10.244.1.0 dev {TUNNEL}; ip neigh del fd00:10:244:1:: dev {TUNNEL}",
        "",
        "tunnel-entry-missing",
        "cni-vxlan has no neighbour entry for fd00:10:244:1::",
    ),
    "fdb entry": Damage(
        TUNNELLED,
        f"bridge fdb del {FDB} dev {TUNNEL}",
        "",
        "tunnel-entry-missing",
        f"{TUNNEL} has no fdb entry for 02:",
    ),
    "routes": Damage(
        TUNNELLED,
        "ip route flush proto 201; ip -6 route flush proto 201",
        "",
        "tunnel-route-missing",
        "no route leads to 192.0.2.2, an end of cni-vxlan",
    ),
    "routes of another agent": Damage(
        DIRECT,
        "ip link add flannel.1 mtu 1450 type vxlan id 1 dstport 8472 local 192.0.2.1 nolearning;"
        "ip link set flannel.1 up; bridge fdb append 02:00:00:00:00:09 dev flannel.1 dst 192.0.2.2",
        "ip link del flannel.1",
        "tunnel-route-missing",
        "no route leads to 192.0.2.2, an end of flannel.1 (MAC 02:00:00:00:00:09)",
    ),
    "tunnel down": Damage(TUNNELLED, f"ip link set {TUNNEL} down", "", "tunnel-down", f"{TUNNEL}, the tunnel to"),
    "MTU of the tunnel": Damage(
        TUNNELLED, "ip link set uplink0 mtu 1400", "ip link set uplink0 mtu 1500", "mtu-between-nodes", "has MTU 1450"
    ),
    "MTU of the pod": Damage(
        DIRECT,
        "ip link set uplink0 mtu 1400",
        "ip link set uplink0 mtu 1500",
        "mtu-between-nodes",
        "eth0 of pod0 has MTU 1500, and uplink0 to 10.244.1.0/24 has 1400",
    ),
    "forwarding": Damage(
        DIRECT,
        "sysctl -qw net.ipv4.conf.uplink0.forwarding=0",
        "sysctl -qw net.ipv4.conf.uplink0.forwarding=1",
        "forwarding-off",
        "net.ipv4.conf.uplink0.forwarding is 0: the node forwards no packets of other nodes' pods",
    ),
    "policy": Damage(
        DIRECT,
        f"{POLICY}; {REPLIES}",
        NO_POLICY,
        "firewall-drops",
        "inet site c drops packets from 10.244.1.0/24, pods of another node: policy drop",
    ),
    "masquerading": Damage(
        TUNNELLED,
        MASQUERADE,
        "nft delete table ip site",
        "masquerade-between-nodes",
        "packets of pod0 to 10.244.1.0/24, pods of another node, lose the address 10.244.0.2: ip site c",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_fault_between_nodes_is_named_and_no_other(by_way: dict[str, TwoNodes], name: str) -> None:
    damage = DAMAGES[name]
    nodes = by_way[damage.way]
    nodes.nodes[0].run(["sh", "-ec", damage.command])

    faults = nodes.diagnose(0)
    nodes.nodes[0].run(["sh", "-ec", damage.undo])
    nodes.reconcile()

    assert {each.check for each in faults} == {damage.check}, faults
    assert any(damage.words in each.what for each in faults), faults
    assert all(each.cause and each.remedy for each in faults)


def test_a_fault_of_own_pods_and_others_is_reported_once(by_way: dict[str, TwoNodes]) -> None:
    nodes = by_way[DIRECT]
    nodes.nodes[0].run(["sysctl", "-qw", "net.ipv4.ip_forward=0"])

    faults = nodes.diagnose(0)
    nodes.nodes[0].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])

    assert [(each.check, each.subject) for each in faults] == [("forwarding-off", "net.ipv4.ip_forward")]


@pytest.mark.parametrize("backend", [Backend.HOST_GW, Backend.VXLAN])
def test_masquerading_without_an_exception_and_the_bridges_mtu_are_named(
    tmp_path: Path, direct_bin_dir: Path, backend: Backend
) -> None:
    with two_nodes(tmp_path / "nodes", direct_bin_dir, backend, keys={"ipMasq": True}) as nodes:
        faults = nodes.diagnose(0)

    found = {(each.check, each.subject) for each in faults}
    masqueraded = {("masquerade-between-nodes", nodes.address(0)), ("masquerade-between-nodes", nodes.address(0, 6))}
    assert found == masqueraded | ({("mtu-between-nodes", "pod0")} if backend is Backend.VXLAN else set())
    assert {each.pods for each in faults} == {("default/pod0",)}
