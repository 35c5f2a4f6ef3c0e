"""The bandwidth plugin: its qdiscs, filters and IFB on the node, through every verb."""

from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import SHARED_BY_PODS, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.node.bandwidth import Limited, tc
from tests.node.faults import FaultAt, answer_lost_at, dispatched, failing_at, fails_at_every_step
from tests.node.test_start_up import SLOW, loaded_by
from tests.nodes import HANG, Node

RATES: dict[str, Any] = {
    "ingressRate": 8_000_000,
    "ingressBurst": 400_000,
    "egressRate": 16_000_000,
    "egressBurst": 800_000,
}
SUBNETS: dict[str, Any] = {"unshapedSubnets": ["192.0.2.0/24", "2001:db8::/33", "10.0.0.0/8"]}
IFB = "bwp" + sha512(b"netid-one").hexdigest()[:12]


@pytest.fixture
def limited(node: Node, bin_dir: Path) -> Limited:
    return Limited(node, bin_dir, **RATES)


def by_reference(node: Node) -> Limited:
    if not (REFERENCE_BIN_DIR / "bandwidth").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Limited(node, REFERENCE_BIN_DIR, interface=bridge_config(cniVersion="1.0.0"), **RATES)


def test_limits_are_in_the_kernel(limited: Limited) -> None:
    before = limited.attach("one")

    result = limited.plugin.succeed("ADD", "one", prevResult=before)

    [ifb] = limited.node.ip("link", "show", "dev", IFB)
    assert result["interfaces"] == [*before["interfaces"], {"name": IFB, "mac": ifb["address"], "mtu": 1500}]
    assert result["ips"] == before["ips"]
    assert ("UP" in ifb["flags"], ifb["ifalias"]) == (True, "net/id-one/eth0")
    veth = limited.veth(result)
    # Bytes per second, bytes, and 25 ms in microseconds: the numbers of the reference.
    assert limited.qdiscs(veth)["tbf"]["options"] == {"rate": 1_000_000, "burst": 50_000, "lat": 25_000}
    assert limited.qdiscs(IFB)["tbf"]["options"] == {"rate": 2_000_000, "burst": 100_000, "lat": 25_000}
    assert set(limited.qdiscs(veth)) == {"tbf", "ingress"}
    limited.plugin.succeed("CHECK", "one", prevResult=result)


def test_bandwidth_subnets_match_peers_in_both_directions(node: Node, direct_bin_dir: Path) -> None:
    limited = Limited(node, direct_bin_dir, **RATES, unshapedSubnets=["203.0.113.0/24"])

    result = limited.add("one")

    # The offset in the packet: of the source for packets to the pod, of the destination for those from it.
    for link, offset in ((limited.veth(result), 12), (IFB, 16)):
        filters = node.run(["tc", "filter", "show", "dev", link]).stdout
        assert f"match cb007100/ffffff00 at {offset}\n" in filters


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("keys", [RATES, {**RATES, **SUBNETS}, {"ingressRate": 8000}, {"egressRate": 10**12}])
def test_del_leaves_the_interface_as_it_was(node: Node, bin_dir: Path, keys: dict[str, Any]) -> None:
    limited = Limited(node, bin_dir, **keys)
    attached = limited.attach("one")
    before = node.state()
    result = limited.plugin.succeed("ADD", "one", prevResult=attached)
    limited.plugin.succeed("CHECK", "one", prevResult=result)
    assert node.state() != before

    limited.plugin.succeed("DEL", "one", prevResult=result)

    node.assert_same_state(before, within=HANG)
    limited.plugin.succeed("DEL", "one", prevResult=result)
    limited.plugin.succeed("DEL", "one")


def test_del_without_namespace_result_and_limits(node: Node, bin_dir: Path, limited: Limited) -> None:
    limited.add("one")
    limited.add("two")
    remove_namespace(limited.interface.namespace("one"))
    without = Limited(node, bin_dir)

    without.plugin.succeed("DEL", "one", netns="")

    assert IFB not in limited.ifbs()
    assert len(limited.ifbs()) == 1


def test_without_limits(node: Node, bin_dir: Path) -> None:
    limited = Limited(node, bin_dir)
    attached = limited.attach("one")
    before = node.state()

    for keys in ({}, {"ingressRate": 0, "egressRate": 0}, {"runtimeConfig": {"bandwidth": {"ingressRate": 0}}}):
        assert limited.plugin.succeed("ADD", "one", prevResult=attached, **keys) == attached
        limited.plugin.succeed("CHECK", "one", prevResult=attached, **keys)
        limited.plugin.succeed("REPAIR", "one", prevResult=attached, **keys)

    node.assert_same_state(before)


def test_the_plugins_own_keys_count_before_the_runtimes(limited: Limited) -> None:
    asked = {"runtimeConfig": {"bandwidth": {"ingressRate": 80_000, "ingressBurst": 80_000}}}

    result = limited.add("one", **asked)

    assert limited.qdiscs(limited.veth(result))["tbf"]["options"]["rate"] == 1_000_000


REMOVALS = {
    "tbf": ("tc qdisc del dev {veth} root", "ingress", "the qdisc tbf is missing"),
    "rate": ("tc qdisc change dev {veth} root handle 1: tbf rate 9mbit burst 50000 limit 75000", "ingress", "rate is"),
    "burst": ("tc qdisc change dev {veth} root handle 1: tbf rate 8mbit burst 60000 limit 75000", "ingress", "burst"),
    "other": ("tc qdisc replace dev {veth} root handle 7: pfifo limit 9", "ingress", "the qdisc tbf is missing"),
    "ingress": ("tc qdisc del dev {veth} ingress", "egress", "not redirected"),
    "filter": ("tc filter del dev {veth} parent ffff: pref 1", "egress", "not redirected"),
    "ifb": ("ip link del {ifb}", "egress", "the IFB is missing"),
    "ifb down": ("ip link set {ifb} down", "egress", "is down"),
    "ifb tbf": ("tc qdisc del dev {ifb} root", "egress", "the qdisc tbf is missing"),
    "ifb rate": (
        "tc qdisc change dev {ifb} root handle 1: tbf rate 9mbit burst 60000 limit 75000",
        "egress",
        "rate is",
    ),
}
OF_SUBNETS = {
    "htb": ("tc qdisc del dev {veth} root", "ingress", "the qdisc htb is missing"),
    "class": ("tc class change dev {veth} parent 1: classid 1:30 htb rate 9mbit burst 50000", "ingress", "rate is"),
    "no filters": ("tc filter del dev {ifb} parent 1:", "egress", "filters"),
    "one filter": ("tc filter del dev {ifb} parent 1: pref 15", "egress", "filters"),
    "more": (
        "tc filter add dev {veth} parent 1: protocol ip pref 16 u32 match ip src 0.0.0.0/0 flowid 1:0",
        "ingress",
        "filters",
    ),
}


@pytest.mark.mostly_slow(4, "each change; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "command", "direction", "text"),
    [({}, *each) for each in REMOVALS.values()] + [(SUBNETS, *each) for each in OF_SUBNETS.values()],
    ids=[*REMOVALS, *OF_SUBNETS],
)
def test_check_finds_a_change_and_repair_takes_it_back(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], command: str, direction: str, text: str
) -> None:
    limited = Limited(node, direct_bin_dir, **RATES, **keys)
    result = limited.add("one")
    before = node.state()
    node.run(command.format(veth=limited.veth(result), ifb=IFB).split())

    error = limited.plugin.fail("CHECK", "one", prevResult=result)

    assert (error["code"], f'{direction} of "eth0"' in error["msg"], text in error["msg"]) == (999, True, True), error
    assert limited.plugin.succeed("REPAIR", "one", prevResult=result) is None
    limited.plugin.succeed("CHECK", "one", prevResult=result)
    node.assert_same_state(before, within=HANG)


def test_repair_touches_nothing_that_is_in_order(limited: Limited) -> None:
    result = limited.add("one")
    limited.interface.ping("one", "10.88.0.1")

    def counted() -> list[Any]:
        return [(each["dev"], each["bytes"]) for each in tc(limited.node, "-s", "qdisc") if each["kind"] == "tbf"]

    before = counted()
    assert all(size for _, size in before)
    limited.plugin.succeed("REPAIR", "one", prevResult=result)

    assert [(dev, size <= now) for (dev, size), (_, now) in zip(before, counted(), strict=True)] == [
        (dev, True) for dev, _ in before
    ]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_gc(node: Node, bin_dir: Path, limited: Limited) -> None:
    reference = by_reference(node)
    other = Limited(node, bin_dir, interface=bridge_config(name="other", bridge="br1"), **RATES)
    limited.add("one")
    limited.add("gone")
    other.add("elsewhere")
    reference.interface.config["name"] = reference.plugin.config["name"] = "references"
    reference.add("lives")
    reference.add("forgotten")
    before = limited.ifbs()
    # Of this one the reference leaves an IFB that no packet reaches.
    reference.interface.succeed("DEL", "forgotten")
    kept = {"containerID": "id-one", "ifname": "eth0"}

    limited.node.plugin(bin_dir, "bandwidth", "GC", limited.plugin.config)
    assert limited.ifbs() == before
    ran = limited.node.plugin(
        bin_dir, "bandwidth", "GC", {**limited.plugin.config, "cni.dev/valid-attachments": [kept]}
    )

    assert (ran.code, ran.stderr) == (0, "")
    hashed = ("netid-one", "otherid-elsewhere", "referencesid-lives")
    assert sorted(limited.ifbs()) == sorted("bwp" + sha512(each.encode()).hexdigest()[:12] for each in hashed)


BAD = [
    ({"ingressRate": "fast"}, 'ingressRate: expected bits per second from 0 to 18446744073709551615, got "fast"'),
    ({"egressRate": -1}, "egressRate: expected bits per second from 0 to 18446744073709551615, got -1"),
    ({"egressRate": 7}, "egressRate: expected 0 or at least 8 bits per second, got 7"),
    ({"ingressBurst": 9}, "ingressRate: required key is missing: ingressBurst is 9"),
    ({"egressBurst": 2**36}, "egressBurst: expected bits from 0 to 34359738359, got 68719476736"),
    ({"shapedSubnets": ["10.0.0.0"]}, 'shapedSubnets[0]: expected a CIDR, got "10.0.0.0"'),
    (
        {"ingressRate": 9000, "shapedSubnets": ["10.0.0.0/8"], "unshapedSubnets": ["10.0.0.0/8"]},
        'shapedSubnets: expected none, since unshapedSubnets is set, got ["10.0.0.0/8"]',
    ),
    (
        {"runtimeConfig": {"bandwidth": {"IngressRate": 1.5}}},
        "runtimeConfig.bandwidth.ingressRate: expected bits per second from 0 to 18446744073709551615, got 1.5",
    ),
]


@pytest.mark.mostly_slow(4, "each key; a part is in make test")
@pytest.mark.parametrize(("keys", "message"), BAD)
def test_a_bad_key(node: Node, direct_bin_dir: Path, keys: dict[str, Any], message: str) -> None:
    limited = Limited(node, direct_bin_dir, **keys)
    attached = limited.attach("one")
    before = node.state()

    for verb in ("ADD", "CHECK", "REPAIR", "STATUS"):
        error = limited.plugin.fail(verb, "one", prevResult=attached)
        assert (error["code"], error["msg"]) == (7, message), verb

    node.assert_same_state(before)
    assert limited.plugin.run("DEL", "one", prevResult=attached).code == 0


def test_without_an_earlier_plugin(limited: Limited) -> None:
    limited.node.pod_namespace("one")

    for verb in ("ADD", "CHECK"):
        error = limited.plugin.fail(verb, "one")
        assert (error["code"], "prevResult" in error["msg"], "bandwidth" in error["msg"]) == (7, True, True)
    limited.plugin.succeed("STATUS", "one")


def test_interface_that_is_no_veth_is_refused(node: Node, bin_dir: Path) -> None:
    node.run(["ip", "link", "add", "uplink0", "up", "type", "veth", "peer", "name", "uplink1"])
    macvlan = {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "uplink0"}
    limited = Limited(node, bin_dir, interface=macvlan, **RATES)
    attached = limited.attach("one")
    before = node.state()

    error = limited.plugin.fail("ADD", "one", prevResult=attached)

    expected = '"eth0" in the container is a macvlan: the bandwidth of veth pairs alone can be limited'
    assert (error["code"], error["msg"]) == (7, expected)
    limited.plugin.succeed("DEL", "one", prevResult=attached)
    node.assert_same_state(before)


def test_an_interface_that_is_limited_already(limited: Limited) -> None:
    result = limited.add("one")
    before = limited.node.state()

    error = limited.plugin.fail("ADD", "one", prevResult=result)

    assert (error["code"], "has a qdisc already: tbf" in error["msg"]) == (999, True)
    limited.node.assert_same_state(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_two_interfaces_of_a_pod(node: Node, bin_dir: Path, limited: Limited) -> None:
    """Of two networks, and two in one network, whose IFBs would have one name with the reference."""
    other = Limited(node, bin_dir, interface=bridge_config(name="other", bridge="br1"), **RATES)
    results = {"eth0": limited.add("one")}
    for ifname, network in (("net1", other), ("net2", limited)):
        attached = network.interface.succeed("ADD", "one", ifname=ifname)
        results[ifname] = network.plugin.succeed("ADD", "one", ifname=ifname, prevResult=attached)
    assert len(set(limited.ifbs())) == 3
    networks = {"eth0": limited, "net1": other, "net2": limited}
    for ifname, network in networks.items():
        network.plugin.succeed("CHECK", "one", ifname=ifname, prevResult=results[ifname])

    for left, (ifname, network) in enumerate(reversed(networks.items())):
        network.plugin.succeed("DEL", "one", ifname=ifname)

        assert len(limited.ifbs()) == 2 - left
        if left == 0:
            limited.plugin.succeed("CHECK", "one", prevResult=results["eth0"])


def test_the_first_of_two_interfaces_in_one_network_goes_first(limited: Limited) -> None:
    limited.add("one")
    attached = limited.interface.succeed("ADD", "one", ifname="net1")
    second = limited.plugin.succeed("ADD", "one", ifname="net1", prevResult=attached)

    limited.plugin.succeed("DEL", "one")

    limited.plugin.succeed("CHECK", "one", ifname="net1", prevResult=second)
    assert limited.ifbs() == [second["interfaces"][-1]["name"]]


@pytest.mark.parametrize("burst", [800_000, 4_294_967_295], ids=["burst", "containerd's burst"])
def test_pods_of_the_reference(node: Node, bin_dir: Path, burst: int) -> None:
    reference = by_reference(node)
    asked = {"ingressRate": 8_000_000, "ingressBurst": burst, "egressRate": 8_000_000, "egressBurst": burst}
    for key in RATES:  # null would not be absent to it
        del reference.plugin.config[key]
    keys = {"runtimeConfig": {"bandwidth": asked}}
    ours = Limited(node, bin_dir, interface=reference.interface.config)
    attached = reference.attach("one")
    before = node.state()
    result = reference.plugin.succeed("ADD", "one", prevResult=attached, **keys)

    ours.plugin.succeed("CHECK", "one", prevResult=result, **keys)
    made = node.state()
    ours.plugin.succeed("REPAIR", "one", prevResult=result, **keys)
    node.assert_same_state(made)
    node.run(["tc", "qdisc", "del", "dev", IFB, "root"])
    node.run(["tc", "qdisc", "del", "dev", ours.veth(result), "ingress"])
    ours.plugin.succeed("REPAIR", "one", prevResult=result, **keys)
    if burst < 10**6:  # of a larger one we make another bucket
        reference.plugin.succeed("CHECK", "one", prevResult=result, **keys)

    ours.plugin.succeed("DEL", "one", prevResult=result)
    # The reference's veth has no queue length; the kernel gives it one with the first qdisc.
    node.assert_same_state(before, ignore=["node/link/veth*"], within=HANG)


def test_the_reference_takes_our_pods(node: Node, bin_dir: Path) -> None:
    reference = by_reference(node)
    ours = Limited(node, bin_dir, interface=reference.interface.config, **RATES)
    ours.add("stays")
    before = node.state()
    result = ours.add("one")

    reference.plugin.succeed("CHECK", "one", prevResult=result)
    reference.plugin.succeed("DEL", "one", prevResult=result)
    reference.interface.succeed("DEL", "one", prevResult=result)

    node.assert_same_state(before, ignore=SHARED_BY_PODS, within=HANG)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("keys", [{}, SUBNETS], ids=["all", "subnets"])
def test_add_fails_at_every_request_to_the_kernel(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], fault_at: FaultAt
) -> None:
    without_ipam = bridge_config(isGateway=False, ipam={})
    limited = Limited(node, direct_bin_dir, interface=without_ipam, **RATES, **keys)
    config = {**limited.plugin.config, "ipam": {}, "prevResult": limited.attach("one")}

    assert fails_at_every_step(node, direct_bin_dir, config, fault_at) >= 6


def test_del_goes_on_past_an_error(node: Node, direct_bin_dir: Path) -> None:
    limited = Limited(node, direct_bin_dir, **RATES)
    limited.add("one")

    with failing_at(1):
        outcome = dispatched(node, direct_bin_dir, "DEL", {**limited.plugin.config, "ipam": {}}, "one")

    assert (outcome.code, limited.ifbs()) == (1, [])


def test_nothing_slow_is_loaded(node: Node, python_bin_dir: Path, direct_bin_dir: Path) -> None:
    limited = Limited(node, direct_bin_dir, **RATES, **SUBNETS)
    config = {**limited.plugin.config, "prevResult": limited.attach("pod")}

    for verb in ("ADD", "DEL", "STATUS"):
        loaded = loaded_by(node, python_bin_dir, verb, config)

        assert "plugins.bandwidth" in loaded
        assert {module.partition(".")[0] for module in loaded} & SLOW <= ({"threading"} if verb == "DEL" else set())
