"""The dummy plugin: addresses on an interface that leads nowhere."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.kernel import has_link_kind, lacking
from tests.node.faults import FaultAt, answer_lost_at, failing_at, fails_at_every_step
from tests.nodes import Node

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}
MAC = "02:00:00:00:00:09"


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "dummy", "ipam": IPAM} | keys


@pytest.fixture
def network(node: Node, direct_bin_dir: Path) -> Network:
    return Network(node, direct_bin_dir, config())


@pytest.fixture
def dummies(network: Network) -> Network:
    """The network, if the kernel has dummies."""
    if not has_link_kind(network.node, "dummy"):
        lacking("dummy")
    return network


def names(node: Node, netns: str) -> set[str]:
    return {each["ifname"] for each in node.ip("link", netns=netns)}


def test_the_pod_has_its_addresses_until_del(dummies: Network) -> None:
    netns = dummies.node.pod_namespace("one")
    before = dummies.node.state()
    keys = {"mtu": 1400, "args": f"MAC={MAC}"}

    result = dummies.succeed("ADD", "one", **keys)

    [made] = dummies.node.ip("-d", "link", "show", "dev", "eth0", netns=netns)
    assert result["interfaces"] == [{"name": "eth0", "mac": MAC, "mtu": 1400, "sandbox": netns}]
    assert (made["linkinfo"]["info_kind"], made["address"], made["mtu"]) == ("dummy", MAC, 1400)
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == dummies.addresses("one")
    assert all(dummies.ping("one", address) for address in dummies.addresses("one"))
    dummies.succeed("CHECK", "one", prevResult=result)
    assert "exists already" in dummies.fail("ADD", "one")["msg"]
    for _ in range(2):
        dummies.succeed("DEL", "one")
    dummies.node.assert_same_state(before, ignore=["files/*networks*"])
    assert names(dummies.node, netns) == {"lo"}


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link set eth0 address 02:00:00:00:00:01", "MAC of"),
        ("ip address flush dev eth0 scope global", "is missing"),
        ("ip link delete eth0", '"eth0" is missing'),
    ],
)
def test_check_tells_damage(dummies: Network, damage: str, told: str) -> None:
    result = dummies.add("one")
    dummies.node.run(damage.split(), netns=dummies.namespace("one"))

    error = dummies.fail("CHECK", "one", prevResult=result)

    assert (error["code"], told in error["msg"]) == (999, True), error


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_add_with_any_failed_request_leaves_nothing(dummies: Network, fault_at: FaultAt, apart: int) -> None:
    dummies.node.pod_namespace("one")

    assert fails_at_every_step(dummies.node, dummies.bin_dir, config(), fault_at, apart=apart) >= 5


def test_without_an_ipam_plugin(network: Network) -> None:
    netns = network.node.pod_namespace("one")

    for verb in ("ADD", "STATUS"):
        error = network.fail(verb, "one", ipam={})
        assert (error["code"], error["msg"]) == (7, "ipam.type: required key is missing")
    assert names(network.node, netns) == {"lo"}


def test_kernel_without_dummies_fails_add_alone(network: Network) -> None:
    """An error of the kernel, whichever, leaves nothing; DEL, STATUS and GC do without the driver."""
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    if not has_link_kind(network.node, "dummy"):
        error = network.fail("ADD", "one")
        assert "create dummy 'eth0'" in error["msg"]
        network.node.assert_same_state(before, ignore=["files/*networks*"])
    network.succeed("DEL", "one")
    network.succeed("DEL", "one", netns="")
    network.succeed("STATUS", "one")
    keys: dict[str, Any] = {"cni.dev/valid-attachments": []}
    assert network.node.plugin(network.bin_dir, "dummy", "GC", network.config | keys).code == 0
    assert names(network.node, netns) == {"lo"}
