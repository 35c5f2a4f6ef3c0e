"""The firewall plugin by firewalld: a real one in a node, on a bus of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import REFERENCE_BIN_DIR
from tests.firewalld import running_firewalld, sources
from tests.node.firewall_chains import Chain
from tests.nodes import Neighbours, Node, veth_between

pytestmark = pytest.mark.sudo


@pytest.fixture
def firewalld(node: Node, tmp_path: Path) -> Iterator[Node]:
    """The node with firewalld."""
    with running_firewalld(node, tmp_path):
        yield node


@pytest.fixture
def outside(node: Node, make_node: Callable[[], Node]) -> Neighbours:
    """Another node that knows the way to the pods."""
    other = make_node()
    wire = veth_between(node, other)
    other.run(["ip", "route", "add", "10.88.0.0/16", "via", wire.ipv4[0]])
    other.run(["ip", "route", "add", "fd00:88::/64", "via", wire.ipv6[0]])
    return wire


@pytest.mark.needs("firewalld")
def test_a_pod_passes_by_a_zone_and_survives_a_reload_with_repair(
    firewalld: Node, direct_bin_dir: Path, outside: Neighbours
) -> None:
    """Without a name for the backend: firewalld runs, so it is taken, as the reference does."""
    chain = Chain(firewalld, direct_bin_dir, isDefaultGateway=True)
    targets = (outside.ipv4[1], outside.ipv6[1])
    chain.attach("refused")
    assert [chain.bridge.ping("refused", target) for target in targets] == [False, False]
    chain.succeed("STATUS", "")

    chain.add("one")
    assert [chain.bridge.ping("one", target) for target in targets] == [True, True]
    assert sorted(sources(firewalld)) == ["10.88.0.3/32", "fd00:88::3/128"]
    chain.succeed("CHECK", "one")

    firewalld.run(["firewall-cmd", "--reload"])
    error = chain.fail("CHECK", "one")
    assert (error["code"], error["msg"].partition(";")[0]) == (999, "10.88.0.3 is not admitted by firewalld")
    for _ in range(2):
        chain.succeed("REPAIR", "one")
    chain.succeed("CHECK", "one")
    assert [chain.bridge.ping("one", target) for target in targets] == [True, True]

    chain.add("lost")
    valid = [{"containerID": "id-one", "ifname": "eth0"}]
    chain.ours.succeed("GC", "", **{"cni.dev/valid-attachments": valid})
    assert sorted(sources(firewalld)) == ["10.88.0.3/32", "fd00:88::3/128"]
    chain.ours.succeed("DEL", "one", netns="")
    assert sources(firewalld) == []
    chain.succeed("DEL", "one")
    assert "cni_harness" not in str(firewalld.nft())


@pytest.mark.needs("firewalld")
def test_pods_join_the_configured_zone_and_either_suite_removes_them(firewalld: Node, direct_bin_dir: Path) -> None:
    keys = {"backend": "firewalld", "firewalldZone": "internal"}
    ours = Chain(firewalld, direct_bin_dir, keys)
    ours.add("one")
    assert sorted(sources(firewalld, "internal")) == ["10.88.0.2/32", "fd00:88::2/128"]
    attached = ours.attach("two")

    for zone in ("nowhere", "nowhere else"):
        error = ours.fail("ADD", "two", prevResult=attached, firewalldZone=zone)
        assert f'zone "{zone}"' in error["msg"]
        assert ours.fail("STATUS", "two", firewalldZone=zone)["code"] == 50
        assert ours.fail("CHECK", "two", firewalldZone=zone)["code"] == 999
        ours.succeed("DEL", "two", firewalldZone=zone)

    if not (REFERENCE_BIN_DIR / "firewall").exists():
        return
    assert ours.by_reference("DEL", "one").code == 0
    assert sources(firewalld, "internal") == []
    theirs = Chain(firewalld, direct_bin_dir, keys, of_reference=True)
    theirs.results["two"] = attached | {"cniVersion": "1.0.0"}
    assert theirs.by_reference("ADD", "two").code == 0
    theirs.succeed("CHECK", "two")
    theirs.succeed("DEL", "two")
    assert sources(firewalld, "internal") == []


@pytest.mark.parametrize("address", ["unix:path=/nowhere/bus", "tcp:host=127.0.0.1", "nonsense"])
def test_without_firewalld_the_backend_is_not_available(node: Node, direct_bin_dir: Path, address: str) -> None:
    chain = Chain(node, direct_bin_dir, {"backend": "firewalld"})
    result = chain.attach("one")
    before = node.state()
    bus = {"extra_env": {"DBUS_SYSTEM_BUS_ADDRESS": address}}

    error = chain.fail("ADD", "one", prevResult=result, **bus)

    assert "no D-Bus at" in error["msg"]
    assert chain.fail("STATUS", "one", **bus)["code"] == 50
    assert "no D-Bus at" in chain.fail("CHECK", "one", **bus)["msg"]
    chain.succeed("DEL", "one", **bus)
    node.assert_same_state(before)
