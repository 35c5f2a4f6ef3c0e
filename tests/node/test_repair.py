"""REPAIR by interface plugins: what other programs removed on the host is put back, for pods of both suites."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK, Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_vlan_filtering, lacking
from tests.node.faults import dispatched, failing_at
from tests.nodes import Neighbours, Node, until, veth_between

OUTSIDE = Neighbours("uplink0", ("192.0.2.1", "192.0.2.2"), ("2001:db8:0::1", "2001:db8:0::2"))
BRIDGE = bridge_config(cniVersion="1.0.0", ipMasq=True, hairpinMode=True)
PTP = {"cniVersion": "1.0.0", "name": "net", "type": "ptp", "ipMasq": True, "ipam": DUAL_STACK}
KINDS = {"bridge": BRIDGE, "ptp": PTP}
LEFT_BY_REFERENCE = ["node/sysctl/*", "node/link/br0", "node/address/*", "node/route/*", "node/nft *", "files/*"]
"""The bridge with its addresses, empty chains of iptables, folders."""


@pytest.fixture
def connected(node: Node, make_node: Callable[[], Node]) -> Node:
    """A node with a neighbour that knows no way back to the pods: they reach it by masquerading alone."""
    veth_between(node, make_node())
    return node


@pytest.fixture
def reference_bin_dir() -> Path:
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return REFERENCE_BIN_DIR


def reaches_outside(network: Network, pod: str) -> bool:
    return all(network.ping(pod, OUTSIDE[position][1]) for position in (1, 2))


def repair(network: Network, pod: str, result: dict[str, Any], **changes: Any) -> None:
    network.succeed("REPAIR", pod, prevResult=result, **changes)


@pytest.mark.mostly_slow(2, "each back end; one is in make test")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", [{}, {"ipMasqBackend": "iptables"}], ids=["nftables", "iptables"])
def test_masquerading_comes_back(connected: Node, bin_dir: Path, kind: str, keys: dict[str, Any]) -> None:
    network = Network(connected, bin_dir, KINDS[kind] | keys)
    result = network.add("one")
    assert reaches_outside(network, "one")
    before = connected.state()
    repair(network, "one", result)
    connected.assert_same_state(before)

    connected.run(["nft", "flush", "ruleset"])
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        connected.run(["sysctl", "-w", f"{key}=0"])
    assert not reaches_outside(network, "one")
    repair(network, "one", result)

    connected.assert_same_state(before)
    assert reaches_outside(network, "one")
    network.succeed("CHECK", "one", prevResult=result)


@pytest.mark.mostly_slow(4, "each rule; a part is in make test")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("removal", ["-F", "-F CHAIN", "-F POSTROUTING", "nft flush ruleset"])
def test_rules_of_the_reference_come_back_in_its_form(
    connected: Node, direct_bin_dir: Path, reference_bin_dir: Path, kind: str, removal: str
) -> None:
    reference = Network(connected, reference_bin_dir, KINDS[kind])
    ours = Network(connected, direct_bin_dir, KINDS[kind])
    fresh = connected.state()
    stays = reference.add("stays")
    result = reference.add("one")
    before = connected.state()
    repair(ours, "one", result)
    connected.assert_same_state(before)
    [chain, *_] = [line.split()[-1] for line in nat(connected) if 'id: \\"id-one\\"' in line and "POSTROUTING" in line]

    if removal.startswith("nft"):
        connected.run(removal.split())
    else:
        for program in ("iptables", "ip6tables"):
            connected.run([program, "-t", "nat", *removal.replace("CHAIN", chain).split()])
    assert not reaches_outside(ours, "one")
    repair(ours, "stays", stays)
    repair(ours, "one", result)

    connected.assert_same_state(before)
    assert reaches_outside(ours, "one")
    for pod, made in (("one", result), ("stays", stays)):
        reference.succeed("CHECK", pod, prevResult=made)
        reference.succeed("DEL", pod, prevResult=made)
    assert nat(connected) == []
    connected.assert_same_state(fresh, ignore=LEFT_BY_REFERENCE)


@pytest.mark.mostly_slow(2, "each plugin; one is in make test")
@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_the_reference_have_no_exceptions(
    connected: Node, direct_bin_dir: Path, reference_bin_dir: Path, kind: str
) -> None:
    config = KINDS[kind] | {"ipMasqExcept": [f"{OUTSIDE.ipv4[1]}/32", f"{OUTSIDE.ipv6[1]}/128"]}
    ours = Network(connected, direct_bin_dir, config)
    result = Network(connected, reference_bin_dir, config).add("one")
    before = connected.state()

    ours.succeed("CHECK", "one", prevResult=result)
    repair(ours, "one", result)

    connected.assert_same_state(before, ignore=["files/*"])
    assert until(lambda: reaches_outside(ours, "one"))
    ours.succeed("DEL", "one", prevResult=result)
    assert nat(connected) == []


def nat(node: Node) -> list[str]:
    """The rules of containers in the nat tables of iptables."""
    lines = [node.run([f"{program}-save", "-t", "nat"]).stdout.splitlines() for program in ("iptables", "ip6tables")]
    return [line for family in lines for line in family if line.startswith("-A")]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("by_reference", [False, True])
def test_a_deleted_bridge_comes_back(
    connected: Node, direct_bin_dir: Path, reference_bin_dir: Path, *, by_reference: bool
) -> None:
    ours = Network(connected, direct_bin_dir, BRIDGE)
    adding = Network(connected, reference_bin_dir, BRIDGE) if by_reference else ours
    results = {pod: adding.add(pod) for pod in ("one", "two")}
    [other] = [ip["address"].split("/")[0] for ip in results["two"]["ips"] if "." in ip["address"]]
    assert until(lambda: reaches_outside(ours, "one"))
    [bridge] = connected.ip("link", "show", "br0")

    connected.run(["ip", "link", "delete", "br0"])
    assert not ours.ping("one", other)
    for pod, result in results.items():
        repair(ours, pod, result)

    [made] = connected.ip("link", "show", "br0")
    assert made["address"] == bridge["address"]
    ports = connected.ip("-d", "link", "show", "master", "br0")
    assert [port["linkinfo"]["info_slave_data"]["hairpin"] for port in ports] == [True, True]
    assert until(lambda: ours.ping("one", other))
    assert until(lambda: reaches_outside(ours, "one"))
    for pod, result in results.items():
        ours.succeed("CHECK", pod, prevResult=result)
        adding.succeed("CHECK", pod, prevResult=result)


@pytest.mark.mostly_slow(3, "each part; a part is in make test")
@pytest.mark.parametrize(
    "removal",
    [
        ["ip", "link", "set", "PORT", "nomaster"],
        ["ip", "link", "set", "PORT", "down"],
        ["ip", "link", "set", "br0", "down"],
        ["ip", "link", "set", "br0", "promisc", "off"],
        ["ip", "address", "flush", "dev", "br0"],
        ["bridge", "link", "set", "dev", "PORT", "isolated", "off"],
        ["nft", "delete", "table", "bridge", "cni_harness"],
    ],
    ids=" ".join,
)
def test_each_part_of_a_bridge_comes_back(node: Node, direct_bin_dir: Path, removal: list[str]) -> None:
    network = Network(node, direct_bin_dir, bridge_config(promiscMode=True, portIsolation=True, macspoofchk=True))
    result = network.add("one")
    before = node.state()
    repair(network, "one", result)
    node.assert_same_state(before)
    port = result["interfaces"][1]["name"]

    node.run([port if word == "PORT" else word for word in removal])
    network.fail("CHECK", "one", prevResult=result)
    repair(network, "one", result)

    network.succeed("CHECK", "one", prevResult=result)
    node.assert_same_state(before, ignore=["node/route/*", "node/address/*"], within=10)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    "removal",
    [
        ["ip", "address", "delete", "10.88.0.1/32", "dev", "PORT"],
        ["ip", "route", "flush", "dev", "PORT", "scope", "host"],
        ["ip", "-6", "route", "delete", "fd00:88::2", "dev", "PORT"],
        ["ip", "link", "set", "PORT", "down"],
        ["sysctl", "-w", "net.ipv4.ip_forward=0"],
    ],
    ids=" ".join,
)
def test_each_part_of_ptp_comes_back(node: Node, direct_bin_dir: Path, removal: list[str]) -> None:
    network = Network(node, direct_bin_dir, PTP)
    result = network.add("one")
    before = node.state()
    repair(network, "one", result)
    node.assert_same_state(before)
    port = result["interfaces"][0]["name"]

    node.run([port if word == "PORT" else word for word in removal])
    network.fail("CHECK", "one", prevResult=result)
    repair(network, "one", result)

    network.succeed("CHECK", "one", prevResult=result)
    assert until(lambda: network.ping("one", "10.88.0.1"))
    assert until(lambda: network.ping("one", "fd00:88::1"))


def test_repair_restores_mac_checks_in_the_references_form(
    node: Node, direct_bin_dir: Path, reference_bin_dir: Path
) -> None:
    config = bridge_config(cniVersion="1.0.0", macspoofchk=True)
    reference, ours = Network(node, reference_bin_dir, config), Network(node, direct_bin_dir, config)
    result = reference.add("one")
    before = node.nft()
    repair(ours, "one", result)
    assert node.nft() == before

    for removal in (["flush", "ruleset"], ["flush", "chain", "bridge", "nat", "PREROUTING"]):
        node.run(["nft", *removal])
        repair(ours, "one", result)
        assert without_handles(node.nft()) == without_handles(before)
    reference.succeed("DEL", "one", prevResult=result)
    ours.succeed("DEL", "one", prevResult=result)
    assert "id-one" not in str(node.nft())


def without_handles(objects: list[dict[str, Any]]) -> list[str]:
    plain = [
        {kind: {key: value for key, value in made.items() if key != "handle"}}
        for each in objects
        for kind, made in each.items()
    ]
    return sorted(map(str, plain))


def vlans_of_ports(node: Node) -> dict[str, Any]:
    shown = json.loads(node.run(["bridge", "-j", "vlan", "show"]).stdout)
    return {port["ifname"]: port["vlans"] for port in shown}


def test_ports_of_vlans_come_back(node: Node, direct_bin_dir: Path) -> None:
    if not has_vlan_filtering(node):
        lacking("VLAN filtering on bridges")
    network = Network(node, direct_bin_dir, bridge_config(vlan=100, vlanTrunk=[{"minID": 200, "maxID": 202}]))
    results = {pod: network.add(pod) for pod in ("one", "two")}
    vlans = vlans_of_ports(node)
    address = network.addresses("two")[0]
    assert network.ping("one", address)

    node.run(["ip", "link", "delete", "br0"])
    for pod, result in results.items():
        repair(network, pod, result)

    assert vlans == vlans_of_ports(node)
    assert until(lambda: network.ping("one", address))
    assert until(lambda: network.ping("one", "10.88.0.1"))
    for pod, result in results.items():
        network.succeed("CHECK", pod, prevResult=result)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_fault_at_any_request_the_next_repair_completes(node: Node, direct_bin_dir: Path, kind: str) -> None:
    config = KINDS[kind] | {"cniVersion": "1.0.0"}
    node.pod_namespace("one")
    added = dispatched(node, direct_bin_dir, "ADD", config, "one")
    assert added.code == 0, added
    config = config | {"prevResult": json.loads(added.stdout)}
    port = next(each["name"] for each in config["prevResult"]["interfaces"] if each["name"].startswith("veth"))
    losses = [["nft", "flush", "ruleset"], ["ip", "address", "flush", "dev", port]]
    losses += [["ip", "link", "set", port, "nomaster"]] if kind == "bridge" else []
    step = failures = 0
    while True:
        step += 1
        for loss in losses:
            node.run(loss)
        with failing_at(step) as seen:
            faulty = dispatched(node, direct_bin_dir, "REPAIR", config, "one")
        if len(seen) < step:
            break
        failures += faulty.code
        again = dispatched(node, direct_bin_dir, "REPAIR", config, "one")
        checked = dispatched(node, direct_bin_dir, "CHECK", config, "one")

        assert (again.code, checked.code) == (0, 0), (step, faulty, again, checked)
    assert faulty.code == 0, faulty
    assert failures == step - 1 > 8


def test_a_pod_without_its_interface_is_reported(node: Node, direct_bin_dir: Path) -> None:
    network = Network(node, direct_bin_dir, BRIDGE)
    result = network.add("one")
    node.run(["ip", "link", "delete", "eth0"], netns=network.namespace("one"))
    node.run(["nft", "flush", "ruleset"])

    error = network.fail("REPAIR", "one", prevResult=result)

    assert (error["code"], "eth0" in error["msg"]) == (999, True)
    assert node.nft() == []


def test_another_bridge_of_that_kind_is_not_touched(node: Node, direct_bin_dir: Path) -> None:
    network = Network(node, direct_bin_dir, BRIDGE)
    result = network.add("one")
    node.run(["ip", "link", "delete", "br0"])
    node.run(["ip", "link", "add", "br0", "type", "veth", "peer", "name", "other"])
    node.run(["nft", "flush", "ruleset"])

    error = network.fail("REPAIR", "one", prevResult=result)

    assert (error["code"], error["msg"]) == (7, 'bridge: "br0" exists already but is not a bridge')
    assert "id-one" in str(node.nft())  # the other parts are repaired
