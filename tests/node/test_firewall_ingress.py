"""The firewall plugin's ingress policies: which pods reach each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from firewall import admission_nft, admission_table, tables
from netlink.nft_transaction import Hook
from tests.node.faults import dispatched
from tests.node.firewall_chains import Chain, iptables_rules
from tests.nodes import Node, until

BACKENDS = ["nftables", "iptables"]


def network(node: Node, bin_dir: Path, number: int, **keys: Any) -> Chain:
    """A bridge of its own, with subnets of both families."""
    ranges = [[{"subnet": f"10.8{number}.0.0/16"}], [{"subnet": f"fd00:8{number}::/64"}]]
    ipam = {"type": "host-local", "ranges": ranges}
    return Chain(node, bin_dir, keys, name=f"net{number}", bridge=f"br{number}", isDefaultGateway=True, ipam=ipam)


def reaches(chain: Chain, pod: str, number: int, last: int = 2) -> list[bool]:
    """Whether a pod reaches an address of network `number`, by family."""
    return [chain.bridge.ping(pod, address) for address in (f"10.8{number}.0.{last}", f"fd00:8{number}::{last}")]


@pytest.mark.mostly_slow(2, "each back end; one is in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_same_bridge(node: Node, direct_bin_dir: Path, backend: str) -> None:
    keys = {"ingressPolicy": "same-bridge", "backend": backend}
    first, second = (network(node, direct_bin_dir, number, **keys) for number in (1, 2))
    third = network(node, direct_bin_dir, 3, backend=backend)
    first.add("one")
    first.add("two")
    second.add("other")
    third.add("open")

    assert reaches(first, "one", 1, last=3) == [True, True]
    assert reaches(first, "one", 2) == [False, False]
    assert reaches(second, "other", 1) == [False, False]
    # As with the reference: a policy keeps restricted bridges apart, and lets others in.
    assert reaches(third, "open", 1) == [True, True]
    for chain, pod in ((first, "one"), (first, "two"), (second, "other")):
        chain.succeed("CHECK", pod)

    second.succeed("DEL", "other")
    first.succeed("CHECK", "one")
    if backend == "nftables":
        assert reaches(first, "one", 2) == [True, True]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_isolated_pods_reach_no_pod_of_their_bridge(node: Node, direct_bin_dir: Path) -> None:
    chain = network(node, direct_bin_dir, 1, ingressPolicy="isolated")
    other = network(node, direct_bin_dir, 2, ingressPolicy="same-bridge")
    for pod in ("one", "two"):
        chain.add(pod)
    chain.attach("open")
    other.add("other")

    for address in ("10.81.0.3", "10.81.0.4", "10.82.0.2", "fd00:81::3"):
        assert not chain.bridge.ping("one", address), address
    for gateway in ("10.81.0.1", "fd00:81::1"):
        assert chain.bridge.ping("one", gateway)
    chain.succeed("CHECK", "one")

    chain.succeed("DEL", "two")
    chain.succeed("CHECK", "one")
    chain.succeed("DEL", "one")
    other.succeed("CHECK", "other")
    other.succeed("DEL", "other")
    assert node.nft() == []
    assert chain.bridge.ping("one", "10.81.0.4")


@pytest.mark.parametrize(
    ("backend", "remove"),
    [
        ("nftables", "nft delete element inet cni_harness_firewall bridges { br1 }"),
        ("nftables", "nft flush chain bridge cni_harness_firewall forward"),
        ("nftables", "nft delete table bridge cni_harness_firewall"),
        ("nftables", "nft flush map inet cni_harness_firewall members"),
        ("iptables", "iptables -F CNI-ISOLATION-STAGE-1"),
        ("iptables", "ip6tables -F CNI-ISOLATION-STAGE-2"),
        ("iptables", "ip6tables -F FORWARD"),
    ],
)
def test_check_finds_a_policy_that_is_gone_and_repair_mends_it(
    node: Node, direct_bin_dir: Path, backend: str, remove: str
) -> None:
    chain = network(node, direct_bin_dir, 1, ingressPolicy="isolated", backend=backend)
    chain.add("one")
    node.run(remove.split())

    error = chain.fail("CHECK", "one")

    assert error["code"] == 999
    assert 'ingressPolicy "isolated" is not in force on "br1"' in error["msg"]
    chain.succeed("REPAIR", "one")
    chain.succeed("CHECK", "one")
    if backend == "iptables":
        jumps = [rule.split()[-1] for rule in iptables_rules(node) if rule.startswith("-A FORWARD")]
        assert jumps == ["CNI-ISOLATION-STAGE-1", "CNI-FORWARD"] * 2
    chain.succeed("DEL", "one")
    assert [entry for entry in node.nft() if "cni_harness" in str(entry)] == []


def test_a_policy_is_in_force_without_the_chain_of_admitted_pods(node: Node, direct_bin_dir: Path) -> None:
    """Pods that firewalld admits have the chains of the policy alone, as with the reference."""
    chain = network(node, direct_bin_dir, 1, ingressPolicy="same-bridge", backend="iptables")
    chain.add("one")
    for program in ("iptables", "ip6tables"):
        # The first jump leads to the policy, the second to the pods.
        for change in ("-D FORWARD 2", "-F CNI-FORWARD", "-X CNI-FORWARD"):
            node.run([program, *change.split()])

    error = chain.fail("CHECK", "one")

    assert "10.81.0.2" in error["msg"]
    assert "ingressPolicy" not in error["msg"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_stricter_of_two_policies_on_a_bridge_counts(node: Node, direct_bin_dir: Path) -> None:
    chain = network(node, direct_bin_dir, 1, ingressPolicy="same-bridge")
    chain.add("one")
    chain.add("two", ingressPolicy="isolated")

    assert reaches(chain, "one", 1, last=3) == [False, False]
    chain.succeed("CHECK", "one")
    chain.succeed("CHECK", "two", ingressPolicy="isolated")
    chain.succeed("DEL", "two", ingressPolicy="isolated")

    # The pod looks for its neighbour again after a while.
    until(lambda: reaches(chain, "one", 1, last=3) == [True, True])
    chain.succeed("CHECK", "one")


def test_a_policy_needs_a_bridge(node: Node, direct_bin_dir: Path) -> None:
    chain = network(node, direct_bin_dir, 1, ingressPolicy="isolated")
    chain.attach("one")
    before = node.state()

    result = {"cniVersion": "1.1.0", "ips": [{"address": "10.81.0.2/16"}]}
    error = chain.fail("ADD", "one", prevResult=result)

    assert (error["code"], "ingressPolicy" in error["msg"]) == (7, True)
    node.assert_same_state(before)
    chain.succeed("DEL", "one", prevResult=result)


@pytest.mark.parametrize("lack", ["family", "chain"])
@pytest.mark.parametrize("pods", [0, 1])
def test_kernel_without_nftables_for_bridges_is_named_in_the_error(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, lack: str, pods: int
) -> None:
    """The first pod of a node makes the table, and later ones find it: their errors come by different ways."""
    chain = network(node, direct_bin_dir, 1)
    for number in range(pods):
        chain.add(f"before{number}")
    sent = {**chain.ours.config, "prevResult": chain.attach("one"), "ingressPolicy": "isolated"}
    before = node.filtering()
    if lack == "family":
        # DECnet, which no kernel has any more: refused as a family that was left out is.
        for module in (admission_table, tables):
            monkeypatch.setattr(module, "BRIDGE", 12)
    else:
        # A type of chain that no kernel has for bridges: refused as one whose module is missing.
        for module in (admission_table, admission_nft):
            monkeypatch.setattr(module, "PORTS_HOOK", Hook("route", 2, 0))

    outcome = dispatched(node, direct_bin_dir, "ADD", sent, "one")

    assert outcome.code == 1
    message = json.loads(outcome.stdout)["msg"]
    assert message.startswith('ingressPolicy "isolated": ')
    assert message.endswith("this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE)")
    assert node.filtering() == before
    assert dispatched(node, direct_bin_dir, "ADD", {**sent, "ingressPolicy": "same-bridge"}, "one").code == 0
    assert dispatched(node, direct_bin_dir, "DEL", sent, "one").code == 0
