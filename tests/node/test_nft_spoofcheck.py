import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from firewall import spoofcheck_nft as spoofcheck
from firewall import tables
from firewall.owner import Owner
from netlink.nft_transaction import Hook
from netlink.wire import NetlinkError
from tests.node.firewall import (
    act_before_commit,
    all_at_once,
    allow_only,
    disallow,
    inside,
    is_spoof_checked,
    socket_in,
    spoof_checked,
)
from tests.nodes import Node, until_usable

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
OTHER = Owner("net", "c2", "eth0")
MAC = "02:00:00:00:00:0a"
FORGED = "02:00:00:00:00:66"

EXPECTED = """
table bridge cni_harness {
    map checked_ports { type ifname : verdict; }
    set allowed_macs { type ifname . ether_addr; }
    chain check_source { iifname . ether saddr != @allowed_macs drop; }
    chain prerouting { type filter hook prerouting priority -300; iifname vmap @checked_ports; }
}
add element bridge cni_harness checked_ports { port1 comment "net/c1/eth0 02:00:00:00:00:0a" : goto check_source }
add element bridge cni_harness allowed_macs { port1 . 02:00:00:00:00:0a comment "net/c1/eth0" }
"""

SETUP = """
from firewall.owner import Owner
from tests.node.firewall import allow_only, disallow, is_spoof_checked
"""

# For local experiments (IEEE 802): nobody but these tests sends it.
ETHERTYPE = 0x88B5


class Bridge(NamedTuple):
    """A bridge `br0` with two pods at `port1` and `port2`, of which the first has the address MAC."""

    node: Node
    pods: tuple[str, str]

    def heard(self, sources: list[str], namespace: str, ifname: str) -> list[str]:
        """Send a broadcast of each source from the first pod, and return the sources that are heard elsewhere."""
        with sniffing(namespace, ifname) as receiver, sniffing(self.pods[0], "eth0") as sender, on_one_processor():
            for source in sources:
                sender.send(frame(source, b"sent"))
            sender.send(frame(MAC, b"end"))
            heard: list[str] = []
            while True:
                received = receiver.recv(100)
                if received[14:].startswith(b"end"):
                    return heard
                heard.append(received[6:12].hex(":"))


@pytest.fixture
def bridge(node: Node) -> Bridge:
    node.run(["ip", "link", "add", "br0", "up", "type", "bridge", "forward_delay", "0"])
    pods = node.pod_namespace("pod1"), node.pod_namespace("pod2")
    for number, pod in enumerate(pods, 1):
        peer = ["type", "veth", "peer", "name", "eth0", "netns", pod.rpartition("/")[2]]
        node.run(["ip", "link", "add", f"port{number}", *peer])
        node.run(["ip", "link", "set", f"port{number}", "master", "br0", "up"])
        node.run(["ip", "link", "set", "eth0", "up"], netns=pod)
    node.run(["ip", "link", "set", "eth0", "address", MAC], netns=pods[0])
    for ifname in ("port1", "port2", "br0"):
        until_usable(node, ifname)
    for pod in pods:
        until_usable(node, "eth0", pod)
    return Bridge(node, pods)


@contextmanager
def sniffing(namespace: str, ifname: str) -> Iterator[socket.socket]:
    with socket_in(namespace, socket.AF_PACKET, socket.SOCK_RAW) as opened:
        opened.bind((ifname, ETHERTYPE))
        yield opened


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Frames that are sent on one processor arrive in the order they were sent."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def frame(source: str, payload: bytes) -> bytes:
    addresses = b"\xff" * 6 + bytes.fromhex(source.replace(":", ""))
    return addresses + ETHERTYPE.to_bytes(2, "big") + payload.ljust(46, b"\0")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_forged_source_reaches_neither_the_other_pod_nor_the_node(bridge: Bridge) -> None:
    places = [(bridge.pods[1], "eth0"), (bridge.node.path, "br0")]
    assert [bridge.heard([FORGED], *place) for place in places] == [[FORGED], [FORGED]]

    with inside(bridge.node.path):
        allow_only("port1", MAC, OWNER)

    assert [bridge.heard([FORGED, MAC, FORGED], *place) for place in places] == [[MAC], [MAC]]


def test_unchecked_port_may_send_from_any_mac(bridge: Bridge) -> None:
    with inside(bridge.node.path):
        allow_only("port2", FORGED, OTHER)

    assert bridge.heard([FORGED, MAC], bridge.pods[1], "eth0") == [FORGED, MAC]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_address_of_another_checked_port_is_forged_too(bridge: Bridge) -> None:
    with inside(bridge.node.path):
        allow_only("port1", MAC, OWNER)
        allow_only("port2", FORGED, OTHER)

    assert bridge.heard([FORGED, MAC], bridge.pods[1], "eth0") == [MAC]


def test_a_port_is_free_again_when_the_check_is_taken_back(bridge: Bridge) -> None:
    with inside(bridge.node.path):
        allow_only("port1", MAC, OWNER)
        allow_only("port2", FORGED, OTHER)
        disallow(OWNER, "port1")

    assert bridge.heard([FORGED], bridge.pods[1], "eth0") == [FORGED]


def test_rules_equal_the_documented_nft_text(make_node: Callable[[], Node]) -> None:
    ours, theirs = make_node(), make_node()
    theirs.run(["nft", "-f", "-"], stdin=EXPECTED)

    with inside(ours.path):
        allow_only("port1", MAC.upper(), OWNER)

    assert ours.filtering() == theirs.filtering()
    assert ours.filtering()["nft rules"]


def test_rules_saved_and_reloaded_by_nft_are_recognized(node: Node) -> None:
    with inside(node.path):
        allow_only("port1", MAC, Owner("n" * 100, "c" * 100, '"' * 15))
    saved = node.run(["nft", "list", "ruleset"]).stdout
    node.run(["nft", "flush", "ruleset"])
    node.run(["nft", "-f", "-"], stdin=saved)

    with inside(node.path):
        assert is_spoof_checked("port1", MAC, Owner("n" * 100, "c" * 100, '"' * 15))
        [(port, owner)] = spoof_checked()
        disallow(owner, port)

    assert node.nft() == []


def test_the_last_port_takes_the_table_with_it(node: Node) -> None:
    before = node.state()

    with inside(node.path):
        allow_only("port1", MAC, OWNER)
        allow_only("port2", FORGED, OTHER)
        disallow(OWNER, "port1")
        assert spoof_checked() == [("port2", OTHER)]
        disallow(OTHER, "port2")
        disallow(OTHER, "port2")

    node.assert_same_state(before)


def test_repeated_apply_changes_nothing(node: Node) -> None:
    with inside(node.path):
        allow_only("port1", MAC, OWNER)
        before = node.state()
        allow_only("port1", MAC, OWNER)

    node.assert_same_state(before)


@pytest.mark.parametrize(("mac", "owner"), [(FORGED, OWNER), (MAC, OTHER), (FORGED, OTHER)])
def test_stale_rules_of_a_port_with_the_same_name_are_replaced(node: Node, mac: str, owner: Owner) -> None:
    with inside(node.path):
        allow_only("port1", mac, owner)
        before = node.state()
        allow_only("port1", MAC, OWNER)

        assert is_spoof_checked("port1", MAC, OWNER)
        assert not is_spoof_checked("port1", mac, owner)

        allow_only("port1", mac, owner)

    node.assert_same_state(before)


def test_the_former_owner_of_a_port_cannot_take_the_check_away(node: Node) -> None:
    with inside(node.path):
        allow_only("port1", MAC, OTHER)

        disallow(OWNER, "port1")

        assert is_spoof_checked("port1", MAC, OTHER)


def test_a_port_taken_over_at_the_last_moment_stays_checked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with inside(node.path):
        allow_only("port1", MAC, OWNER)
        act_before_commit(monkeypatch, lambda: allow_only("port1", MAC, OTHER))

        disallow(OWNER, "port1")

        assert is_spoof_checked("port1", MAC, OTHER)


def test_nothing_to_take_back_is_fine(node: Node) -> None:
    with inside(node.path):
        disallow(OWNER, "port1")

        assert spoof_checked() == []
        assert not is_spoof_checked("port1", MAC, OWNER)

    assert node.nft() == []


@pytest.mark.parametrize("lack", ["family", "chain"])
def test_kernel_without_nftables_for_bridges_is_named_in_the_error(
    node: Node, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    if lack == "family":
        # DECnet, which no kernel has any more: refused as a family that was left out is.
        for module in (spoofcheck, tables):
            monkeypatch.setattr(module, "BRIDGE", 12)
    else:
        # A type of chain that no kernel has for bridges: refused as one whose module is missing.
        monkeypatch.setattr(spoofcheck, "_HOOK", Hook("route", 0, -300))

    with inside(node.path), pytest.raises(NetlinkError, match="this kernel has no nftables for bridges") as raised:
        allow_only("port1", MAC, OWNER)

    assert raised.value.errno == errno.EOPNOTSUPP


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_ports_that_come_and_go_are_never_left_unchecked(node: Node) -> None:
    work = """
owner, port, mac = Owner("net", f"c{number}", "eth0"), f"port{number}", f"02:00:00:00:00:{number:02x}"
for _ in range(25):
    allow_only(port, mac, owner)
    assert is_spoof_checked(port, mac, owner)
    disallow(owner, port)
    assert not is_spoof_checked(port, mac, owner)
"""
    before = node.state()

    all_at_once(node, 4, SETUP, work)

    node.assert_same_state(before)


@pytest.mark.slow("a hundred ports; single ones are in make test")
def test_a_hundred_ports_on_a_cold_node_are_all_checked_and_all_go(node: Node) -> None:
    before = node.state()
    port = """
owner, port, mac = Owner("net", f"c{number}", "eth0"), f"port{number}", f"02:00:00:00:00:{number:02x}"
"""

    all_at_once(node, 100, SETUP, f"{port}allow_only(port, mac, owner)")

    with inside(node.path):
        assert {f"port{number}" for number in range(100)} == {name for name, _ in spoof_checked()}
    assert len([entry for entry in node.nft() if "rule" in entry]) == 2

    all_at_once(node, 100, SETUP, f"{port}disallow(owner, port)")

    node.assert_same_state(before)
