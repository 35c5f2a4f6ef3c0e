"""Losses that the kernel announces: tables, flushed chains, bridges; and what is none."""

from collections.abc import Iterator

import pytest

from netlink import nft_monitor
from netlink.namespace import open_namespace
from netlink.nft_monitor import LossMonitor
from tests.nodes import HANG, Node

RULES = """
table inet of_a_pod {
    set pods { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 }; }
    chain inner { counter accept; }
    chain base { type nat hook postrouting priority srcnat; ip saddr @pods jump inner; ip saddr 192.0.2.9 accept; }
}
table ip unrelated { chain two { accept; }; }
"""


@pytest.fixture
def monitor(node: Node) -> Iterator[LossMonitor]:
    """Listens on a node with two tables, a bridge, and a port of it."""
    node.run(["nft", "-f", "-"], stdin=RULES)
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    node.run(["ip", "link", "add", "port0", "type", "veth", "peer", "port1"])
    node.run(["ip", "link", "set", "port0", "master", "br0"])
    with open_namespace(node.path) as namespace, LossMonitor(namespace) as monitor:
        yield monitor


@pytest.mark.parametrize(
    "command",
    [
        "nft flush ruleset",
        "nft delete table ip unrelated",
        "nft flush table inet of_a_pod",
        "nft flush chain inet of_a_pod inner",
        "nft flush chain inet of_a_pod base",
        "nft delete chain inet of_a_pod base",
        "ip link delete br0",
    ],
)
def test_each_loss_is_announced_once(node: Node, monitor: LossMonitor, command: str) -> None:
    assert not monitor.wait(0)

    node.run(command.split())

    assert monitor.wait(HANG)
    assert not monitor.wait(0)


@pytest.mark.parametrize("chain", ["POSTROUTING", ""])
def test_a_flush_by_iptables(node: Node, monitor: LossMonitor, chain: str) -> None:
    for source in ("192.0.2.1", "192.0.2.2"):
        node.run(["iptables-nft", "-t", "nat", "-A", "POSTROUTING", "-s", source, "-j", "MASQUERADE"])
    assert not monitor.wait(0)

    node.run(["iptables-nft", "-t", "nat", "-F", *chain.split()])

    assert monitor.wait(HANG)


@pytest.mark.parametrize(
    "commands",
    [
        ["nft delete element inet of_a_pod pods { 192.0.2.1 }"],
        ["nft add chain inet of_a_pod more", "nft add rule inet of_a_pod more accept"],
        ["nft add chain inet of_a_pod more", "nft delete chain inet of_a_pod more"],
        ["nft replace rule inet of_a_pod inner handle HANDLE drop"],
        ["ip link set port0 nomaster"],
        ["ip link delete port0"],
        ["ip link add br1 type bridge"],
    ],
)
def test_ordinary_changes_are_no_losses(node: Node, monitor: LossMonitor, commands: list[str]) -> None:
    listed = node.run(["nft", "-a", "list", "chain", "inet", "of_a_pod", "inner"]).stdout
    handle = listed.partition("accept # handle ")[2].split()[0]

    for command in commands:
        node.run(command.replace("HANDLE", handle).split())

    assert not monitor.wait(0)


def test_lost_notifications_count_as_a_loss(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nft_monitor, "_BUFFER", 1)
    with open_namespace(node.path) as namespace, LossMonitor(namespace) as monitor:
        many = "add table inet t\n" + "".join(f"add chain inet t chain{number}\n" for number in range(300))
        node.run(["nft", "-f", "-"], stdin=many)

        assert monitor.wait(HANG)
        assert not monitor.wait(0)


def test_other_namespaces_are_not_heard(node: Node, monitor: LossMonitor) -> None:
    pod = node.pod_namespace("pod")
    node.run(["nft", "-f", "-"], stdin=RULES, netns=pod)
    node.run(["nft", "flush", "ruleset"], netns=pod)

    assert not monitor.wait(0)
