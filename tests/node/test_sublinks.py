"""macvlan, ipvlan and vlan: the behaviour that pods on an interface of their node share."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netlink.namespace import remove_namespace
from plugins.attach.host_veth import host_veth_name
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_link_kind, lacking
from tests.masters import IPAM, link_of, names, reserved, settings_of
from tests.nodes import Neighbours, Node

BadKeys = list[tuple[dict[str, Any], str]]


class Sublink(NamedTuple):
    """A plugin, the options of its kind for ip(8), and its own behaviour."""

    plugin: str
    keys: dict[str, Any]
    options: list[str]
    other: dict[str, Any]
    """Keys of a second pod on the same master."""
    status_without_master: tuple[int, int | None]
    bad: BadKeys
    """Keys, and the beginning of the message about them."""


NO_DEFAULT_ROUTE = "master: it is not set, and there is no default route to take it from"
BAD: BadKeys = [
    ({"master": "uplink9"}, 'master: there is no interface "uplink9"'),
    ({"mtu": 1501}, 'mtu: expected at most 1500, the MTU of "uplink0", got 1501'),
    ({"mtu": 67}, "mtu: expected 0 or an MTU of at least 68 bytes, got 67"),
    ({"linkInContainer": "yes"}, 'linkInContainer: expected true or false, got "yes"'),
]
SUBLINKS = [
    Sublink(
        "macvlan",
        {},
        [],
        {},
        (1, 50),
        [
            *BAD,
            ({"master": None}, NO_DEFAULT_ROUTE),
            ({"master": "a/b"}, "master: "),
            ({"mode": "source"}, "mode: "),
            ({"bcqueuelen": -1}, "bcqueuelen: "),
            ({"mac": "none"}, "mac: "),
        ],
    ),
    Sublink(
        "ipvlan",
        {},
        [],
        {},
        (1, 50),
        [
            *BAD,
            ({"master": None}, NO_DEFAULT_ROUTE),
            ({"mode": "l4"}, 'mode: expected "l2" or "l3" or "l3s", got "l4"'),
        ],
    ),
    Sublink(
        "vlan",
        {"vlanId": 7},
        ["id", "7"],
        {"vlanId": 8},
        (1, 7),
        [
            *BAD,
            ({"master": None}, "master: required key is missing"),
            ({"vlanId": 4095}, "vlanId: expected a VLAN ID from 0 to 4094, got 4095"),
            ({"vlanId": -1}, "vlanId: expected a VLAN ID from 0 to 4094, got -1"),
        ],
    ),
]


def config(sublink: Sublink, **keys: Any) -> dict[str, Any]:
    common = {"cniVersion": "1.1.0", "name": "net", "type": sublink.plugin, "master": "uplink0", "ipam": IPAM}
    return common | sublink.keys | keys


@pytest.fixture(params=SUBLINKS, ids=lambda sublink: sublink.plugin)
def sublink(request: pytest.FixtureRequest, node: Node) -> Sublink:
    found: Sublink = request.param
    if not has_link_kind(node, found.plugin, *found.options):
        lacking(found.plugin)
    return found


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours, sublink: Sublink) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config(sublink))


@pytest.fixture
def theirs(node: Node, wire: Neighbours, sublink: Sublink) -> Network:
    """Debian's plugin on the same node."""
    assert wire.ifname == "uplink0"
    if not (REFERENCE_BIN_DIR / sublink.plugin).exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, config(sublink, cniVersion="1.0.0"))


def test_link_in_container(network: Network) -> None:
    network.config["linkInContainer"] = True
    netns = network.node.pod_namespace("one")
    error = network.fail("ADD", "one")
    assert (error["code"], error["msg"]) == (7, 'master: there is no interface "uplink0"')
    network.node.run(["ip", "link", "set", "uplink0", "netns", netns])
    network.node.run(["ip", "link", "set", "uplink0", "up"], netns=netns)

    result = network.succeed("ADD", "one", ifname="net1")

    assert link_of(network, "one", "net1")["link"] == "uplink0"
    network.succeed("CHECK", "one", ifname="net1", prevResult=result)
    network.succeed("DEL", "one", ifname="net1", prevResult=result)
    assert names(network.node, netns) == {"lo", "uplink0"}


def test_the_host_has_an_interface_of_the_same_name(network: Network) -> None:
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"])

    network.add("one")
    network.succeed("DEL", "one")

    assert "eth0" in names(network.node)
    assert names(network.node, network.namespace("one")) == {"lo"}


def test_del_removes_a_link_that_a_killed_add_has_not_renamed(network: Network, sublink: Sublink) -> None:
    netns, name = network.node.pod_namespace("one"), host_veth_name("id-one", "eth0")
    kind = [sublink.plugin, *sublink.options]
    network.node.run(["ip", "link", "add", "link", "uplink0", "name", name, "netns", netns, "type", *kind])

    network.succeed("DEL", "one")

    assert names(network.node, netns) == {"lo"}


def test_add_refuses_bad_keys_and_del_ignores_them(network: Network, sublink: Sublink) -> None:
    network.node.pod_namespace("one")
    before = network.node.state()

    for keys, told in sublink.bad:
        error = network.fail("ADD", "one", **keys)

        assert (error["code"], error["msg"][: len(told)]) == (7, told)
        network.node.assert_same_state(before)
        ran = network.run("DEL", "one", **keys)
        assert ran.code == 0, ran


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_removal_leaves_nothing(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    network.succeed("ADD", "one")

    for _ in range(2):
        network.succeed("DEL", "one")
        network.node.assert_same_state(before, ignore=["files/*networks*"])
        assert names(network.node, netns) == {"lo"}
    network.succeed("ADD", "one")
    remove_namespace(netns)
    network.succeed("DEL", "one")
    assert reserved(network) == set()


def test_check_tells_damage(network: Network) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    assert "uplink9" in network.fail("CHECK", "one", master="uplink9", prevResult=result)["msg"]
    for damage, told in (
        ("ip address flush dev eth0 scope global", "address 192.0.2.10/24 is missing"),
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link delete eth0", '"eth0" is missing'),
    ):
        network.node.run(damage.split(), netns=network.namespace("one"))
        assert told in network.fail("CHECK", "one", prevResult=result)["msg"]


def test_status_and_gc(network: Network, sublink: Sublink) -> None:
    def run(verb: str, **keys: Any) -> tuple[int, object]:
        ran = network.node.plugin(network.bin_dir, sublink.plugin, verb, network.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert run("STATUS") == (0, None)
    assert run("STATUS", master="uplink9") == (1, 50)
    assert run("STATUS", master=None) == sublink.status_without_master
    assert run("STATUS", ipam={"type": "no-such-plugin"})[0] == 1
    network.add("kept")
    network.add("lost", **sublink.other)
    valid = [{"containerID": "id-kept", "ifname": "eth0"}]
    assert run("GC", **{"cni.dev/valid-attachments": valid}) == (0, None)
    assert reserved(network) == {network.addresses("kept")[0]}


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("ours_first", [True, False])
def test_either_suite_checks_and_deletes_the_others_pod(theirs: Network, network: Network, *, ours_first: bool) -> None:
    network.config["cniVersion"] = "1.0.0"
    added, other = (network, theirs) if ours_first else (theirs, network)
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    result = added.succeed("ADD", "one")

    other.succeed("CHECK", "one", prevResult=result)
    other.succeed("DEL", "one", prevResult=result)
    assert names(network.node, netns) == {"lo"}
    assert reserved(network) == set()
    network.node.assert_same_state(before, ignore=["files/*networks*"])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_result_has_the_keys_of_the_references_result(theirs: Network, network: Network, sublink: Sublink) -> None:
    network.config["cniVersion"] = "1.0.0"
    other, own = theirs.add("theirs"), network.add("own", **sublink.other)

    # Debian's macvlan does not tell the MTU.
    assert [each.keys() - {"mtu"} for each in other["interfaces"]] == [
        each.keys() - {"mtu"} for each in own["interfaces"]
    ]
    assert [ip.keys() for ip in other["ips"]] == [ip.keys() for ip in own["ips"]]
    assert other.get("routes", []) == own.get("routes", [])
    vlan = {"id": 8} if sublink.plugin == "vlan" else {}
    assert settings_of(theirs, "theirs") | vlan == settings_of(network, "own")
