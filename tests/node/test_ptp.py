"""The ptp plugin: a pod, its host and other pods reach each other by routes alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK, Network
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import HANG, Node, until, veth_between

FAMILIES = [("10.88.0.1", 0, "-4"), ("fd00:88::1", 1, "-6")]
"""The gateway, the position of the pod's address in a result, and the option of ip(8)."""
KEPT = ["node/sysctl/net.ip*forward*", "files/*/networks*"]
"""Forwarding, and the place where to go on reserving, stay as with the reference plugin."""


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "ptp", "ipam": DUAL_STACK} | keys


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, config())


def host_end(result: dict[str, Any]) -> str:
    return str(result["interfaces"][0]["name"])


def routes(network: Network, pod: str, option: str) -> dict[str, str | None]:
    """Destinations and gateways in a pod, but for those of link-local addresses and groups."""
    listed = network.node.ip(option, "route", netns=network.namespace(pod))
    return {route["dst"]: route.get("gateway") for route in listed if route["dst"][:2] not in {"fe", "ff", "mu"}}


def test_pods_reach_each_other_and_the_node(network: Network) -> None:
    network.add("one")
    network.add("two")

    for pod, others in (("one", network.addresses("two")), ("two", network.addresses("one"))):
        for address in [*others, "10.88.0.1", "fd00:88::1"]:
            assert network.ping(pod, address), (pod, address)
    for address in network.addresses("one") + network.addresses("two"):
        assert network.ping(None, address), address


def test_result_matches_the_kernel(network: Network) -> None:
    result = network.add("one")

    outer, inner = result["interfaces"]
    [on_host] = network.node.ip("-d", "link", "show", "type", "veth")
    [in_pod] = network.node.ip("link", "show", "eth0", netns=network.namespace("one"))
    assert [on_host[key] for key in ("ifname", "address", "ifalias")] == [
        outer["name"],
        outer["mac"],
        "net/id-one/eth0",
    ]
    assert (inner["name"], inner["mac"]) == ("eth0", in_pod["address"])
    assert (outer.get("sandbox", ""), inner["sandbox"]) == ("", network.namespace("one"))
    assert [ip["interface"] for ip in result["ips"]] == [1, 1]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert [ip["gateway"] for ip in result["ips"]] == ["10.88.0.1", "fd00:88::1"]


@pytest.mark.parametrize(("gateway", "position", "option"), FAMILIES)
def test_routes_lead_through_the_gateway(network: Network, gateway: str, position: int, option: str) -> None:
    result = network.add("one")
    address, length = result["ips"][position]["address"].split("/")
    subnet = {"16": "10.88.0.0/16", "64": "fd00:88::/64"}[length]

    assert routes(network, "one", option) == {gateway: None, subnet: gateway, "default": gateway}
    # A network's route would come back with the interface if the kernel made it.
    node, netns = network.node, network.namespace("one")
    if option == "-4":
        node.run(["ip", "link", "set", "eth0", "down"], netns=netns)
        node.run(["ip", "link", "set", "eth0", "up"], netns=netns)
        assert routes(network, "one", option) == {}
    host_routes = network.node.ip(option, "route", "show", "dev", host_end(result))
    assert address in {route["dst"] for route in host_routes}
    [shown] = network.node.ip("address", "show", "dev", host_end(result))
    bits = {"-4": 32, "-6": 128}[option]
    assert (gateway, bits) in {(each["local"], each["prefixlen"]) for each in shown["addr_info"]}
    key = {"-4": "net.ipv4.ip_forward", "-6": "net.ipv6.conf.all.forwarding"}[option]
    assert network.node.run(["sysctl", "-n", key]).stdout == "1\n"


def test_an_address_without_a_network(network: Network) -> None:
    """As with static addresses from a cloud: nothing but the host is near, and the gateway is outside."""
    addresses = [{"address": "10.1.2.3/32", "gateway": "169.254.1.1"}]
    ipam = {"type": "static", "addresses": addresses, "routes": [{"dst": "0.0.0.0/0"}]}
    (network.node.folder / "both").mkdir()
    for folder, name in ((network.bin_dir, "ptp"), (REFERENCE_BIN_DIR, "static")):
        (network.node.folder / "both" / name).symlink_to(folder / name)
    network.bin_dir = network.node.folder / "both"
    network.config |= {"ipam": ipam, "cniVersion": "1.0.0"}

    network.add("one")

    assert network.ping(None, "10.1.2.3")
    assert network.ping("one", "169.254.1.1")
    assert routes(network, "one", "-4") == {"169.254.1.1": None, "default": "169.254.1.1"}


def test_the_hosts_end_needs_no_duplicate_address_detection(network: Network) -> None:
    """The host looks for the pod from its link-local address, which is of no use while it is tentative."""
    port = host_end(network.add("one"))

    values = {key: f"net.ipv6.conf.{port}.{key}" for key in ("accept_dad", "accept_ra")}
    found = {key: network.node.run(["sysctl", "-n", name]).stdout.strip() for key, name in values.items()}
    assert found == {"accept_dad": "0", "accept_ra": "0"}


def test_mtu(network: Network) -> None:
    result = network.add("one", mtu=1400)

    assert [interface["mtu"] for interface in result["interfaces"]] == [1400, 1400]
    [on_host] = network.node.ip("link", "show", host_end(result))
    [in_pod] = network.node.ip("link", "show", "eth0", netns=network.namespace("one"))
    assert (on_host["mtu"], in_pod["mtu"]) == (1400, 1400)


def test_dns_of_the_configuration_counts_first(network: Network) -> None:
    assert network.add("one", dns={"nameservers": ["10.88.0.1"]})["dns"] == {"nameservers": ["10.88.0.1"]}


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_masquerading(make_node: Callable[[], Node], bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    network = Network(node, bin_dir, config(ipMasq=True, ipMasqBackend=backend))
    filtering = node.filtering()
    result = network.add("one")

    # The neighbour has no route back to the pod: only the node's own addresses get answers.
    assert network.ping("one", wire.ipv4[1])
    assert network.ping("one", wire.ipv6[1])
    network.succeed("CHECK", "one", prevResult=result)
    node.run(["nft", "flush", "ruleset"])
    assert "not masqueraded" in network.fail("CHECK", "one", prevResult=result)["msg"]
    network.succeed("DEL", "one", prevResult=result)
    if backend == "nftables":
        assert node.filtering() == filtering


@pytest.mark.parametrize("ipam", [{}, None], ids=["empty", "null"])
def test_pair_without_ipam_has_no_addresses_and_carries_packets(network: Network, ipam: dict[str, str] | None) -> None:
    """Wanted of the reference plugin in containernetworking/plugins#987."""
    node, pod = network.node, network.namespace("one")
    before = node.state()

    result = network.add("one", ipam=ipam, ipMasq=True)

    host, inner = result["interfaces"]
    assert (result.get("ips"), inner["name"], inner["sandbox"]) == (None, "eth0", pod)
    for name, netns in ((host["name"], None), ("eth0", pod)):
        (link,) = node.ip("address", "show", "dev", name, netns=netns)
        assert "LOWER_UP" in link["flags"]
        assert {address["scope"] for address in link["addr_info"]} <= {"link"}
    node.run(["ip", "address", "add", "192.0.2.1/24", "dev", host["name"]])
    node.run(["ip", "address", "add", "192.0.2.2/24", "dev", "eth0"], netns=pod)
    assert network.ping("one", "192.0.2.1")
    network.succeed("CHECK", "one", ipam=ipam, prevResult=result)
    node.run(["ip", "link", "set", host["name"], "down"])
    assert "is down" in network.fail("CHECK", "one", ipam=ipam, prevResult=result)["msg"]
    network.succeed("DEL", "one", ipam=ipam)
    node.assert_same_state(before)


@pytest.mark.parametrize("way", ["with the result", "without", "again", "without a namespace"])
def test_removal_leaves_nothing(network: Network, way: str) -> None:
    network.config["ipMasq"] = True
    network.node.pod_namespace("one")
    before = network.node.state()
    result = network.succeed("ADD", "one")

    keys: dict[str, Any] = {"prevResult": result} if way == "with the result" else {}
    for _ in range(2 if way == "again" else 1):
        network.succeed("DEL", "one", **keys, netns="" if way == "without a namespace" else None)
    network.node.assert_same_state(before, ignore=KEPT, within=HANG)
    assert network.node.ip("link", "show", "type", "veth") == []


def test_a_second_add_fails_and_changes_nothing(network: Network) -> None:
    network.add("one")
    before = network.node.state()

    assert "exists already" in network.fail("ADD", "one")["msg"]
    network.node.assert_same_state(before, ignore=["files/*last_reserved_ip*"])


def test_a_failing_add_leaves_nothing(network: Network) -> None:
    network.config["ipMasq"] = True
    network.node.pod_namespace("one")
    before = network.node.state()
    # A route by an address that no gateway leads to is refused, after links and addresses were made.
    ipam = DUAL_STACK | {"routes": [{"dst": "203.0.113.0/24", "gw": "198.51.100.1"}]}

    assert "203.0.113.0/24" in network.fail("ADD", "one", ipam=ipam)["msg"]
    network.node.assert_same_state(before, ignore=KEPT)


@pytest.mark.parametrize(
    ("damage", "repair", "told"),
    [
        ("ip link set {port} down", "", '"{port}" is down'),
        ("ip address delete 10.88.0.1/32 dev {port}", "", "10.88.0.1/32 is missing"),
        ("ip address delete fd00:88::1/128 dev {port}", "ip address add fd00:88::1/128 dev {port}", "fd00:88::1/128"),
        ("ip route delete {ip} dev {port}", "ip route add {ip} dev {port}", 'route to {ip} by "{port}" is missing'),
        ("ip link set {port} address 02:00:00:00:00:01", "", 'MAC of "{port}" is 02:00:00:00:00:01'),
        ("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1", "net.ipv4.ip_forward is 0"),
    ],
)
def test_check_tells_damage_until_it_is_repaired(network: Network, damage: str, repair: str, told: str) -> None:
    result = network.add("one")
    known = {"port": host_end(result), "ip": network.addresses("one")[0]}
    network.succeed("CHECK", "one", prevResult=result)
    network.node.run(damage.format(**known).split())

    assert told.format(**known) in network.fail("CHECK", "one", prevResult=result)["msg"]
    if repair:
        network.node.run(repair.format(**known).split())
        network.succeed("CHECK", "one", prevResult=result)


def test_gc_removes_a_lost_pod(network: Network) -> None:
    network.config["ipMasq"] = True
    kept = host_end(network.add("kept"))
    network.add("lost")
    lost = network.addresses("lost")
    other = Network(
        network.node, network.bin_dir, config(name="other", ipam={"type": "host-local", "subnet": "10.9.0.0/24"})
    )
    stays = host_end(other.add("another"))

    valid = [{"containerID": "id-kept", "ifname": "eth0"}]
    ran = network.node.plugin(network.bin_dir, "ptp", "GC", network.config | {"cni.dev/valid-attachments": valid})

    assert ran.code == 0, ran
    assert {link["ifname"] for link in network.node.ip("link", "show", "type", "veth")} == {kept, stays}
    assert not any(address in str(network.node.nft()) for address in lost)
    assert network.ping("kept", "10.88.0.1")


def test_status_asks_the_ipam_plugin(network: Network) -> None:
    def status(**keys: Any) -> tuple[int, object]:
        ran = network.node.plugin(network.bin_dir, "ptp", "STATUS", network.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert status() == (0, None)
    assert status(ipam={}) == (0, None)
    assert status(ipam={"type": "no-such-plugin"})[0] == 1


# Mixed use with the reference plugin (Debian's)

REFERENCE_KEYS = {"cniVersion": "1.0.0", "ipMasq": True}


@pytest.fixture
def reference(node: Node) -> Network:
    if not (REFERENCE_BIN_DIR / "ptp").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, config(**REFERENCE_KEYS))


@pytest.fixture
def ours(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, config(**REFERENCE_KEYS))


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_ours_checks_and_deletes_a_pod_of_the_reference(reference: Network, ours: Network) -> None:
    reference.add("first")
    reference.succeed("DEL", "first")
    reference.node.pod_namespace("one")
    before = reference.node.state()
    result = reference.succeed("ADD", "one")

    ours.succeed("CHECK", "one", prevResult=result)
    ours.succeed("DEL", "one", prevResult=result)
    ours.node.assert_same_state(before, ignore=["files/*last_reserved_ip*", "files/*.owners", "files/*networks/net"])


def test_the_reference_checks_and_deletes_a_pod_of_ours(reference: Network, ours: Network) -> None:
    # Debian's release knows iptables alone, and fails the DEL of other masquerading once.
    ours.config["ipMasqBackend"] = "iptables"
    ours.node.pod_namespace("one")
    result = ours.succeed("ADD", "one")

    reference.succeed("CHECK", "one", prevResult=result)
    reference.succeed("DEL", "one", prevResult=result)
    assert ours.node.ip("link", "show", "type", "veth") == []
    until(lambda: ours.node.ip("route") == [])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_result_has_the_shape_of_the_references(reference: Network, ours: Network) -> None:
    theirs, own = reference.add("theirs"), ours.add("own")

    assert [sorted(interface) for interface in theirs["interfaces"]] == [
        sorted(interface.keys() - {"mtu"}) for interface in own["interfaces"]
    ]
    assert [ip.keys() for ip in theirs["ips"]] == [ip.keys() for ip in own["ips"]]
    assert (theirs["routes"], theirs["dns"]) == (own["routes"], own.get("dns", {}))
    # On the node and in the pod too, but for names, MACs and addresses.
    for option in ("-4", "-6"):
        assert routes(reference, "theirs", option) == routes(ours, "own", option)
    assert ours.ping("own", theirs["ips"][0]["address"].split("/")[0])
    # The reference's host end is looking for duplicates of its link-local address, so it does not look for the pod yet.
    until(lambda: ours.ping("theirs", own["ips"][1]["address"].split("/")[0]))
