"""Each key of the bridge plugin's configuration works as the reference plugin documents, seen in the kernel."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK, Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_vlan_filtering
from tests.nodes import HANG, Node, until


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config())


def host_port(network: Network, pod: str) -> dict[str, Any]:
    """The host's end of a pod's pair, with the settings of a bridge port."""
    ports = network.node.ip("-d", "link", "show", "master", "br0")
    (port,) = [port for port in ports if port["ifalias"] == f"net/id-{pod}/eth0"]
    return dict(port)


def inner(network: Network, pod: str) -> dict[str, Any]:
    (link,) = network.node.ip("-d", "link", "show", "eth0", netns=network.namespace(pod))
    return dict(link)


def test_bridge(network: Network) -> None:
    network.add("one", bridge="other0")

    (bridge,) = network.node.ip("-d", "link", "show", "other0")
    assert bridge["linkinfo"]["info_kind"] == "bridge"


def test_an_existing_bridge_is_used_as_it_is(network: Network) -> None:
    network.node.run(["ip", "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge"])
    network.add("one")

    (bridge,) = network.node.ip("link", "show", "br0")
    assert bridge["address"] == "02:00:00:00:00:01"
    assert "UP" in bridge["flags"]
    assert network.ping("one", "10.88.0.1")


def test_is_gateway_off(network: Network) -> None:
    network.add("one", isGateway=False, ipam={"type": "host-local", "subnet": "10.88.0.0/16"})

    (bridge,) = network.node.ip("-4", "addr", "show", "dev", "br0") or [{"addr_info": []}]
    assert bridge["addr_info"] == []
    assert network.node.run(["sysctl", "-n", "net.ipv4.ip_forward"]).stdout.strip() == "0"


def test_is_default_gateway(network: Network) -> None:
    ipam = {key: value for key, value in DUAL_STACK.items() if key != "routes"}
    result = network.add("one", isGateway=False, isDefaultGateway=True, ipam=ipam)

    netns = network.namespace("one")
    assert [route["dst"] for route in result["routes"]] == ["0.0.0.0/0", "::/0"]
    assert network.node.ip("route", "show", "default", netns=netns)[0]["gateway"] == "10.88.0.1"
    assert network.node.ip("-6", "route", "show", "default", netns=netns)[0]["gateway"] == "fd00:88::1"


def test_is_default_gateway_beside_a_default_route(network: Network) -> None:
    result = network.add("one", isDefaultGateway=True)

    assert [route["dst"] for route in result["routes"]] == ["0.0.0.0/0", "::/0"]


def test_force_address(network: Network) -> None:
    network.add("one")
    moved = {"type": "host-local", "subnet": "10.99.0.0/16", "dataDir": "/var/lib/cni/other"}
    network.node.pod_namespace("two")

    error = network.fail("ADD", "two", ipam=moved)
    network.succeed("ADD", "two", ipam=moved, forceAddress=True)
    (bridge,) = network.node.ip("-4", "addr", "show", "dev", "br0")
    assert error["msg"].startswith('"br0" already has an IP address different from 10.99.0.1/16')
    assert [address["local"] for address in bridge["addr_info"]] == ["10.99.0.1"]


def test_overlapping_ipv6_gateway_needs_force_address(network: Network) -> None:
    network.add("one")
    within = {"type": "host-local", "subnet": "fd00:88:0:0:8000::/65", "dataDir": "/var/lib/cni/other"}
    network.node.pod_namespace("two")

    def gateways() -> set[str]:
        (bridge,) = network.node.ip("-6", "addr", "show", "dev", "br0")
        return {address["local"] for address in bridge["addr_info"] if address["scope"] == "global"}

    error = network.fail("ADD", "two", ipam=within)

    assert error["msg"].startswith('"br0" already has an IP address different from fd00:88::8000:0:0:1/65')
    assert gateways() == {"fd00:88::1"}
    network.succeed("ADD", "two", ipam=within, forceAddress=True)
    assert gateways() == {"fd00:88::8000:0:0:1"}


def test_several_ipv6_networks_on_one_bridge(network: Network) -> None:
    network.add("one")
    network.add("two", ipam={"type": "host-local", "subnet": "fd00:99::/64", "dataDir": "/var/lib/cni/other"})

    (bridge,) = network.node.ip("-6", "addr", "show", "dev", "br0")
    addresses = {address["local"] for address in bridge["addr_info"] if address["scope"] == "global"}
    assert addresses == {"fd00:88::1", "fd00:99::1"}
    assert network.ping("one", "fd00:88::1")
    assert network.ping("two", "fd00:99::1")


def test_mtu(network: Network) -> None:
    result = network.add("one", mtu=1400)

    (bridge,) = network.node.ip("link", "show", "br0")
    assert (bridge["mtu"], host_port(network, "one")["mtu"], inner(network, "one")["mtu"]) == (1400, 1400, 1400)
    assert [interface["mtu"] for interface in result["interfaces"]] == [1400, 1400, 1400]


def test_hairpin_mode(network: Network) -> None:
    network.add("one", hairpinMode=True)
    network.add("two")

    assert host_port(network, "one")["linkinfo"]["info_slave_data"]["hairpin"] is True
    assert host_port(network, "two")["linkinfo"]["info_slave_data"]["hairpin"] is False


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_port_isolation(network: Network) -> None:
    network.add("one", portIsolation=True)
    network.add("two", portIsolation=True)
    network.add("open")

    assert not network.ping("one", network.addresses("two")[0])
    assert network.ping("one", network.addresses("open")[0])
    assert network.ping("one", "10.88.0.1")


def test_promisc_mode(network: Network) -> None:
    result = network.add("one", promiscMode=True)

    (bridge,) = network.node.ip("link", "show", "br0")
    assert "PROMISC" in bridge["flags"]
    network.succeed("CHECK", "one", promiscMode=True, prevResult=result)
    assert "romisc" in network.fail("CHECK", "one", prevResult=result)["msg"]


@pytest.mark.parametrize(
    ("keys", "mac"),
    [
        ({"args": "MAC=02:00:00:00:00:01"}, "02:00:00:00:00:01"),
        ({"args": "MAC=02:00:00:00:00:01;IgnoreUnknown=1;K8S_POD_NAME=one"}, "02:00:00:00:00:01"),
        ({"runtimeConfig": {"mac": "02-00-00-00-00-0A"}}, "02:00:00:00:00:0a"),
        ({"runtimeConfig": {"Mac": "02:00:00:00:00:03"}, "args": "MAC=02:00:00:00:00:01"}, "02:00:00:00:00:03"),
    ],
)
def test_mac(network: Network, keys: dict[str, Any], mac: str) -> None:
    result = network.add("one", **keys)

    assert inner(network, "one")["address"] == mac
    assert result["interfaces"][2]["mac"] == mac


def test_mac_in_args_of_the_configuration(network: Network) -> None:
    network.config["args"] = {"cni": {"mac": "02:00:00:00:00:02"}}
    network.node.pod_namespace("one")
    ran = network.node.plugin(
        network.bin_dir,
        "bridge",
        "ADD",
        network.config,
        container_id="id-one",
        ifname="eth0",
        netns=network.namespace("one"),
        args="MAC=02:00:00:00:00:01",
    )

    assert ran.code == 0, ran
    assert inner(network, "one")["address"] == "02:00:00:00:00:02"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_macspoofchk(network: Network) -> None:
    result = network.add("one", macspoofchk=True)
    network.add("two")
    netns = network.namespace("one")
    network.succeed("CHECK", "one", macspoofchk=True, prevResult=result)
    assert network.ping("one", "10.88.0.1")

    network.node.run(["ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"], netns=netns)
    network.node.run(["ip", "neigh", "flush", "all"], netns=netns)
    assert not network.ping("one", "10.88.0.1")
    assert network.ping("two", "10.88.0.1")


def test_enabledad_waits_until_addresses_are_settled(network: Network) -> None:
    network.add("one", enabledad=True)

    (link,) = network.node.ip("-6", "addr", "show", "dev", "eth0", netns=network.namespace("one"))
    (address,) = [address for address in link["addr_info"] if address["scope"] == "global"]
    assert "tentative" not in address
    assert "nodad" not in address
    assert network.ping("one", "fd00:88::1")


def test_enabledad_finds_a_duplicate(network: Network) -> None:
    network.add("one", enabledad=True)
    address = network.addresses("one")[1]
    same = {"type": "host-local", "ranges": [[{"subnet": "fd00:88::/64", "rangeStart": address, "rangeEnd": address}]]}
    network.node.pod_namespace("two")

    error = network.fail("ADD", "two", enabledad=True, ipam=same | {"dataDir": "/var/lib/cni/other"})
    assert address in error["msg"]
    assert len(network.node.ip("link", "show", "master", "br0")) == 1


def test_disable_container_interface(network: Network) -> None:
    network.add("one", disableContainerInterface=True, ipam={})

    assert "UP" not in inner(network, "one")["flags"]


def test_dns_of_the_configuration_counts_first(network: Network, tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 192.0.2.53\nsearch example.org\n")
    ipam = DUAL_STACK | {"resolvConf": str(resolv_conf)}

    assert network.add("one", ipam=ipam)["dns"] == {"nameservers": ["192.0.2.53"], "search": ["example.org"]}
    assert network.add("two", ipam=ipam, dns={"nameservers": ["192.0.2.1"]})["dns"] == {"nameservers": ["192.0.2.1"]}


@pytest.mark.parametrize("kind", ["bridge", "ptp"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"nameservers": []}, {}),
        ({"options": []}, {}),
        ({"nameservers": None, "domain": ""}, {"nameservers": ["192.0.2.53"]}),
        ({}, {"nameservers": ["192.0.2.53"]}),
    ],
)
def test_empty_list_in_dns_replaces_settings_of_ipam(
    node: Node, bin_dir: Path, tmp_path: Path, kind: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The reference plugins tell an empty list from a missing one; bridge does so since release 1.2."""
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 192.0.2.53\n")
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "resolvConf": str(resolv_conf)}
    config = {"cniVersion": "1.0.0", "name": "net", "type": kind, "ipam": ipam, "dns": given}
    for folder in (bin_dir, REFERENCE_BIN_DIR) if kind == "ptp" else (bin_dir,):
        netns = node.pod_namespace(folder.name)

        added = node.plugin(folder, kind, "ADD", config, container_id="one", ifname="eth0", netns=netns)

        assert (added.code, added.stdout.get("dns", {})) == (0, expected), folder
        node.plugin(folder, kind, "DEL", config, container_id="one", ifname="eth0", netns=netns)


def test_keys_without_regard_to_case_and_null(network: Network) -> None:
    network.add("one", MTU=1400, HairPinMode=True, vlanTrunk=None, runtimeConfig=None, args=None)

    assert inner(network, "one")["mtu"] == 1400
    assert host_port(network, "one")["linkinfo"]["info_slave_data"]["hairpin"] is True


def test_new_bridge_accepts_no_router_advertisements(network: Network) -> None:
    network.add("one")

    assert network.node.run(["sysctl", "-n", "net.ipv6.conf.br0.accept_ra"]).stdout.strip() == "0"


def test_a_reused_address_works_at_once(network: Network) -> None:
    """The node and another pod know the old pod's MAC; nothing waits for their entries to age."""
    one = {
        "type": "host-local",
        "ranges": [
            [{"subnet": "10.88.0.0/16", "rangeStart": "10.88.0.9", "rangeEnd": "10.88.0.9"}],
            [{"subnet": "fd00:88::/64", "rangeStart": "fd00:88::9", "rangeEnd": "fd00:88::9"}],
        ],
    }
    network.add("observer", ipam=DUAL_STACK | {"dataDir": "/var/lib/cni/other"})
    network.add("old", ipam=one)
    for address in ("10.88.0.9", "fd00:88::9"):
        assert network.ping("observer", address)
        assert network.ping(None, address)
    network.succeed("DEL", "old", ipam=one)
    network.add("new", ipam=one)
    mac = inner(network, "new")["address"]

    def known(netns: str | None) -> set[str]:
        neighbours = network.node.ip("neigh", "show", netns=netns) + network.node.ip("-6", "neigh", "show", netns=netns)
        return {entry.get("lladdr", "") for entry in neighbours if entry["dst"] in {"10.88.0.9", "fd00:88::9"}}

    # Without a word from the new pod's owner but the kernel's announcement.
    until(lambda: known(network.namespace("observer")) == {mac})
    until(lambda: known(None) == {mac})
    assert network.ping("observer", "10.88.0.9")
    assert network.ping("observer", "fd00:88::9")


def test_vlans_need_a_kernel_that_knows_them(network: Network) -> None:
    """With bridge VLAN filtering the pod is in its VLAN; without, the error says so and nothing is left."""
    network.node.pod_namespace("one")
    knows_them = has_vlan_filtering(network.node)
    before = network.node.state()
    ran = network.run("ADD", "one", vlan=100)

    assert (ran.code == 0) == knows_them
    if knows_them:
        vlans = network.node.run(["bridge", "-j", "vlan", "show"]).stdout
        assert '"vlan":100' in vlans
    else:
        assert "VLAN" in ran.stdout["msg"]
        network.node.assert_same_state(before, ignore=["files/*", "node/sysctl/*"], within=HANG)
