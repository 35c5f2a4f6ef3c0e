"""GC of the bridge plugin frees what a lost DEL left, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from firewall import masquerade_nft as masquerade
from firewall import spoofcheck_nft as spoofcheck
from netlink.namespace import remove_namespace
from netlink.rtnl import Rtnl
from tests.attachments import Network, bridge_config
from tests.node.faults import INJECTED, dispatched, failing_once
from tests.nodes import Node


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))


def collect(network: Network, **keys: Any) -> None:
    ran = network.node.plugin(network.bin_dir, "bridge", "GC", network.config | keys)

    assert ran.code == 0, ran


def attachments(*pods: str) -> list[dict[str, str]]:
    return [{"containerID": f"id-{pod}", "ifname": "eth0"} for pod in pods]


def nat_rules(network: Network) -> list[str]:
    listings = [network.node.run([program, "-t", "nat", "-S"]).stdout for program in ("iptables-nft", "ip6tables-nft")]
    return "".join(listings).splitlines()


def reservations(network: Network) -> set[str]:
    return {
        file.name for file in (network.node.var_lib_cni / "networks/net").iterdir() if file.name[:2] in {"10", "fd"}
    }


def ports(network: Network) -> set[str]:
    return {link["ifalias"] for link in network.node.ip("link", "show", "master", "br0")}


def port_of(network: Network, pod: str) -> str:
    [name] = [link["ifname"] for link in network.node.ip("link", "show") if link.get("ifalias") == f"net/id-{pod}/eth0"]
    return str(name)


def container_chains(network: Network) -> set[str]:
    return {chain for rule in nat_rules(network) for chain in re.findall("CNI-[0-9a-f]+", rule)}


def elements(node: Node) -> dict[str, int]:
    """How many elements the sets and maps of nftables have; those of all subnets count as one."""
    counts: dict[str, int] = {}
    for entry in node.nft():
        for each in (entry.get("set"), entry.get("map")):
            if each:
                name = "masquerade" if each["name"].startswith("subnet-") else each["name"]
                counts[name] = counts.get(name, 0) + len(each.get("elem", []))
    return counts


@pytest.mark.parametrize("spelling", ["cni.dev/valid-attachments", "cni.dev/attachments"])
def test_gc_removes_a_lost_pod(network: Network, spelling: str) -> None:
    network.add("kept")
    network.add("lost")
    lost = network.addresses("lost")

    collect(network, **{spelling: attachments("kept")})
    rules = str(network.node.nft())
    assert ports(network) == {"net/id-kept/eth0"}
    assert not any(address in rules for address in lost)
    assert "id-lost" not in rules
    assert reservations(network) == set(network.addresses("kept"))
    assert network.ping("kept", "10.88.0.1")


@pytest.mark.parametrize("nothing", [[], None])
def test_an_empty_list_frees_all(network: Network, nothing: object) -> None:
    network.add("lost")

    collect(network, **{"cni.dev/valid-attachments": nothing})
    assert ports(network) == set()
    assert reservations(network) == set()
    assert network.node.nft() == []


def test_without_a_list_nothing_is_freed(network: Network) -> None:
    network.add("one")
    before = network.node.state()

    collect(network)
    network.node.assert_same_state(before)


def test_another_network_is_left_alone(network: Network) -> None:
    network.add("one")
    other = Network(network.node, network.bin_dir, network.config | {"name": "other"})
    other.config["ipam"] = {"type": "host-local", "subnet": "10.88.128.0/17", "gateway": "10.88.0.1"}
    other.config["isGateway"] = False
    other.add("two")

    collect(network, **{"cni.dev/valid-attachments": []})
    assert ports(network) == {"other/id-two/eth0"}
    assert "10.88.128" in str(network.node.nft())
    assert (network.node.var_lib_cni / "networks/other/10.88.128.2").exists() or any(
        (network.node.var_lib_cni / "networks/other").glob("10.88.128.*")
    )


def test_gc_frees_a_pod_without_namespace(network: Network) -> None:
    network.add("lost")
    remove_namespace(network.namespace("lost"))

    collect(network, **{"cni.dev/valid-attachments": []})
    assert reservations(network) == set()
    assert network.node.nft() == []


@pytest.mark.parametrize("lose", ["link set dev {port} nomaster", "link delete dev br0"])
def test_a_pod_that_has_lost_its_bridge(network: Network, lose: str) -> None:
    network.add("lost")
    port = port_of(network, "lost")
    network.node.run(["ip", *lose.format(port=port).split()])

    collect(network, **{"cni.dev/valid-attachments": []})

    assert network.node.ip("link", "show", "type", "veth") == []
    assert reservations(network) == set()


def test_the_chains_of_iptables_stay_for_any_interface_of_their_container(network: Network) -> None:
    network.config["ipMasqBackend"] = "iptables"
    before = nat_rules(network)
    for pod in ("kept", "other", "lost"):
        network.add(pod)
    other = {"containerID": "id-other", "ifname": "eth9"}

    collect(network, **{"cni.dev/valid-attachments": [*attachments("kept"), other]})
    assert len(container_chains(network)) == 2
    assert not any("id-lost" in rule for rule in nat_rules(network))

    collect(network, **{"cni.dev/valid-attachments": []})
    assert nat_rules(network) == before


@pytest.mark.mostly_slow(3, "each step that fails; a part is in make test")
@pytest.mark.parametrize(
    ("owner", "name", "left"),
    [
        (Rtnl, "delete_link", {"ports": 1}),
        (Rtnl, "links", {"ports": 3}),
        (masquerade, "remove", {"masquerade": 2, "owners": 1}),
        (masquerade, "masqueraded", {"masquerade": 6, "owners": 3}),
        (spoofcheck, "remove", {"checked_ports": 1, "allowed_macs": 1}),
        (spoofcheck, "spoof_checked", {"checked_ports": 3, "allowed_macs": 3}),
    ],
)
def test_gc_continues_after_a_failed_removal(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, left: dict[str, int]
) -> None:
    network = Network(node, direct_bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    for pod in ("one", "two", "three"):
        network.add(pod)
    network.add("four", ipMasqBackend="iptables", macspoofchk=False)
    node.run(["ip", "link", "delete", "dev", port_of(network, "four")])
    failing_once(monkeypatch, owner, name)

    outcome = dispatched(node, direct_bin_dir, "GC", network.config | {"cni.dev/valid-attachments": []})

    assert (outcome.code, INJECTED in outcome.stdout.decode()) == (1, True), outcome
    found = {"ports": len(ports(network)), **elements(node), "chains of iptables": len(container_chains(network))}
    assert {name: count for name, count in found.items() if count} == left
    assert reservations(network) == set()
