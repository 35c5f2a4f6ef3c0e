"""`mtu: "auto"` of bridge, ptp and macvlan: the MTU of the way that the pod's packets take."""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR, ROOT
from tests.nodes import Node, until_usable, veth_between

IPAM = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
}
_numbers = itertools.count()
PLUGINS: dict[str, dict[str, Any]] = {
    "bridge": {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": IPAM},
    "ptp": {"type": "ptp", "ipam": IPAM},
    "macvlan": {"type": "macvlan", "ipam": IPAM},
}


def uplink(node: Node, number: int = 0, mtu: int = 1400) -> None:
    """Make an interface `uplink0` with the addresses of `veth_between`, to nowhere."""
    node.run(["ip", "link", "add", f"uplink{number}", "mtu", str(mtu), "type", "veth", "peer", f"far{number}"])
    for name in (f"uplink{number}", f"far{number}"):
        node.run(["ip", "link", "set", name, "up"])
    network = ("192.0.2", "198.51.100")[number]
    node.run(["ip", "address", "add", f"{network}.1/24", "dev", f"uplink{number}"])
    node.run(["ip", "address", "add", f"2001:db8:{number}::1/64", "dev", f"uplink{number}", "nodad"])


@pytest.fixture
def connected(node: Node) -> Node:
    """A node with a default route for packets of 1400 bytes."""
    uplink(node)
    node.run(["ip", "route", "add", "default", "via", "192.0.2.2"])
    return node


@pytest.fixture(params=["bridge", "ptp"])
def network(request: pytest.FixtureRequest, connected: Node, served_bin_dir: Path) -> Network:
    return Network(connected, served_bin_dir, config(request.param))


def config(plugin: str, **keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "mtu": "auto", **PLUGINS[plugin], **keys}


def mtu(network: Network, pod: str = "one", ifname: str = "eth0") -> int:
    [link] = network.node.ip("link", "show", "dev", ifname, netns=network.namespace(pod))
    found: int = link["mtu"]
    return found


def seen(network: Network, **keys: Any) -> int:
    """The MTU of a pod that is added, checked and deleted with `keys` in the configuration."""
    pod = f"pod{next(_numbers)}"
    result = network.add(pod, **keys)
    found = mtu(network, pod)
    network.succeed("CHECK", pod, prevResult=result, **keys)
    assert result["interfaces"][-1]["mtu"] == found
    network.succeed("DEL", pod, prevResult=result, **keys)
    return found


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_packets_of_that_size_pass(node: Node, make_node: Callable[[], Node], served_bin_dir: Path) -> None:
    outside = make_node()
    wire = veth_between(node, outside)
    for each in (node, outside):
        each.run(["ip", "link", "set", wire.ifname, "mtu", "1400"])
    node.run(["ip", "route", "add", "default", "via", wire.ipv4[1]])
    outside.run(["ip", "route", "add", "10.88.0.0/24", "via", wire.ipv4[0]])
    network = Network(node, served_bin_dir, config("ptp"))
    network.add("one")
    until_usable(node, "eth0", network.namespace("one"))

    def passes(size: int) -> bool:
        headers = 28  # of IPv4 and ICMP
        command = ["ping", "-c1", "-W2", "-M", "do", "-s", str(size - headers), wire.ipv4[1]]
        return node.run(command, netns=network.namespace("one"), check=False).returncode == 0

    assert mtu(network) == 1400
    assert passes(1400)
    assert not passes(1401)


def test_both_ends_of_the_pair_have_the_auto_mtu(network: Network) -> None:
    result = network.add("one")

    assert {interface["mtu"] for interface in result["interfaces"]} == {1400}


def test_auto_mtu_subtracts_the_overhead_of_an_overlay(network: Network) -> None:
    expected = {0: 1400, 8: 1392, "vxlan": 1350, "geneve": 1350, "wireguard": 1340, "ipip": 1380}

    assert {overhead: seen(network, mtuOverhead=overhead) for overhead in expected} == expected


def test_routes(network: Network, node: Node) -> None:
    """A route's own MTU counts, of metrics the lowest, and of families the smaller MTU; their overheads differ."""
    node.run(["ip", "route", "replace", "default", "via", "192.0.2.2", "mtu", "1380"])
    assert seen(network) == 1380

    uplink(node, 1, 1500)
    node.run(["ip", "route", "add", "default", "via", "198.51.100.2", "metric", "500", "mtu", "1000"])
    assert seen(network) == 1380

    node.run(["ip", "-6", "route", "add", "default", "via", "2001:db8:1::2"])
    assert seen(network) == 1380
    node.run(["ip", "link", "set", "uplink1", "mtu", "1390"])
    assert seen(network, mtuOverhead="vxlan") == 1320


def test_without_a_default_route(network: Network, node: Node) -> None:
    node.run(["ip", "route", "del", "default"])
    node.pod_namespace("one")

    ran = network.run("ADD", "one")

    assert (ran.code, mtu(network)) == (0, 1500)
    assert "no default route" in ran.stderr
    network.succeed("CHECK", "one", prevResult=ran.stdout)


def test_check_tells_another_mtu(network: Network, node: Node) -> None:
    result = network.add("one")
    node.run(["ip", "link", "set", "uplink0", "mtu", "1300"])

    error = network.fail("CHECK", "one", prevResult=result)

    told = 'MTU of "eth0" is 1400, mtu: "auto" stands for 1300 (1300 of "uplink0")'
    assert (error["code"], error["msg"]) == (999, told)
    node.run(["ip", "link", "set", "uplink0", "mtu", "1400"])
    network.succeed("CHECK", "one", prevResult=result)
    node.run(["ip", "link", "set", "eth0", "mtu", "1280"], netns=network.namespace("one"))
    assert 'MTU of "eth0" is 1280' in network.fail("CHECK", "one", prevResult=result)["msg"]


@pytest.mark.parametrize("keys", [{"mtu": 1400}, {"mtu": 0}])
def test_check_tells_an_mtu_that_was_changed_in_the_pod(network: Network, node: Node, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)
    network.succeed("CHECK", "one", prevResult=result, **keys)
    before, pod = mtu(network), network.namespace("one")
    node.run(["ip", "link", "set", "eth0", "mtu", "1300"], netns=pod)

    error = network.fail("CHECK", "one", prevResult=result, **keys)

    assert (error["code"], error["msg"]) == (999, f'MTU of "eth0" is 1300, prevResult says {before}')
    for interface in result["interfaces"]:
        interface.pop("mtu", None)
    network.succeed("CHECK", "one", prevResult=result, **keys)


@pytest.mark.parametrize("mtu_key", [1400, "auto"])
@pytest.mark.parametrize("bin_dir", [None, REFERENCE_BIN_DIR], ids=["ours", "reference"])
def test_an_mtu_that_tuning_has_set_is_left_to_its_own_check(
    network: Network, node: Node, mtu_key: object, bin_dir: Path | None
) -> None:
    pod = f"tuned-{node.name}"  # /run/cni/tuning is the machine's
    result = network.add(pod, mtu=mtu_key)
    # The reference's plugin does not change the MTU of a result. Debian's release does not know results with one.
    known = {**result, "cniVersion": "1.0.0"} if bin_dir else result
    tuning = Network(
        node, bin_dir or network.bin_dir, {"cniVersion": known["cniVersion"], "name": "net", "type": "tuning"}
    )
    tuned = tuning.succeed("ADD", pod, mtu=1300, prevResult=known)
    final = result if bin_dir else tuned

    network.succeed("CHECK", pod, mtu=mtu_key, prevResult=final)

    assert mtu(network, pod) == 1300
    tuning.succeed("DEL", pod, mtu=1300, prevResult=known)
    node.run(["ip", "link", "set", "eth0", "mtu", "1299"], netns=network.namespace(pod))
    assert 'MTU of "eth0" is 1299' in network.fail("CHECK", pod, mtu=mtu_key, prevResult=final)["msg"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"mtu": "most"}, 'mtu: expected "auto" or an MTU in bytes, got "most"'),
        ({"mtu": 1400, "mtuOverhead": 50}, 'mtuOverhead: it needs mtu: "auto", got mtu: 1400'),
        (
            {"mtuOverhead": "vlan"},
            'or one of "vxlan", "geneve", "wireguard", "ipip", got "vlan"',
        ),
        (
            {"mtuOverhead": 1350},
            'mtuOverhead: expected at most 1332, got 1350: it leaves 50 bytes (1400 of "uplink0", less 1350)',
        ),
    ],
)
def test_add_refuses_bad_mtu_keys_and_del_ignores_them(network: Network, keys: dict[str, Any], told: str) -> None:
    network.node.pod_namespace("one")
    before = network.node.state()

    error = network.fail("ADD", "one", **keys)

    assert error["code"] == 7
    assert told in error["msg"]
    network.node.assert_same_state(before)
    assert network.run("DEL", "one", **keys).code == 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("master", ["uplink0", ""])
def test_macvlan_has_its_masters(connected: Node, served_bin_dir: Path, master: str) -> None:
    network = Network(connected, served_bin_dir, config("macvlan", master=master))

    assert seen(network) == 1400
    assert seen(network, mtuOverhead=100) == 1300
    result = network.add("two")
    connected.run(["ip", "link", "set", "uplink0", "mtu", "1450"])
    assert 'MTU of "eth0" is 1400' in network.fail("CHECK", "two", prevResult=result)["msg"]


def test_a_bridge_on_layer_2_has_its_own(connected: Node, served_bin_dir: Path) -> None:
    network = Network(connected, served_bin_dir, config("bridge", mtuOverhead=100, isGateway=False, ipam={}))

    results = [network.add("one"), network.add("two")]

    assert [mtu(network, pod) for pod in ("one", "two")] == [1300, 1300]
    connected.run(["ip", "link", "set", "br0", "mtu", "1200"])
    error = network.fail("CHECK", "one", prevResult=results[0])
    assert error["msg"] == 'MTU of "eth0" is 1300, mtu: "auto" stands for 1200 (1200 of "br0")'


# `cni-harness validate`


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"mtu": 1500}, 'mtu (bridge): 1500 is more than packets can have on their way out: 1400 of "uplink0"'),
        (
            {"mtu": "auto"},
            'mtu (bridge): "auto" stands for 1400 (1400 of "uplink0"), and the bridge "br0" has 1300',
        ),
        ({"mtu": 1400, "mtuOverhead": 50}, 'mtuOverhead (bridge): it needs mtu: "auto", got mtu: 1400'),
        (
            {"mtu": "auto", "mtuOverhead": 1390},
            'mtuOverhead (bridge): it leaves 10 bytes (1400 of "uplink0", less 1390)',
        ),
        ({"mtu": "auto", "mtuOverhead": "vlan"}, 'got "vlan"'),
        ({"mtu": 1400}, ""),
        ({"mtu": "auto", "mtuOverhead": "vxlan", "bridge": "br1"}, ""),
    ],
)
def test_validate_tells_a_mismatch(connected: Node, served_bin_dir: Path, keys: dict[str, Any], told: str) -> None:
    connected.run(["ip", "link", "add", "br0", "mtu", "1300", "type", "bridge"])
    (path := connected.conf_dir / "net.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [PLUGINS["bridge"] | keys]})
    )
    command = [sys.executable, "-m", "harness.cli.main", "validate", "-o", "json", str(path)]

    ran = connected.run(command, env={"PYTHONPATH": str(ROOT), "CNI_PATH": str(served_bin_dir)}, check=False)

    [verdict] = json.loads(ran.stdout)["networks"]
    found = verdict["problems"] + verdict["warnings"]
    assert [told in text for text in found] == ([True] if told else []), found
