"""The firewall plugin by nftables: pods pass a node's firewall, and leave nothing in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.node.faults import FaultAt, answer_lost_at, failing_at, fails_at_every_step
from tests.node.firewall_chains import Chain, firewall_config, iptables_rules
from tests.node.test_start_up import SLOW, loaded_by
from tests.nodes import Neighbours, Node, veth_between

TABLE = ["nft", "list", "table", "inet", "cni_harness_firewall"]
BOTH = ["iptables", "ip6tables"]


@pytest.fixture
def chain(node: Node, bin_dir: Path) -> Chain:
    return Chain(node, bin_dir)


@pytest.fixture
def outside(node: Node, make_node: Any) -> tuple[Node, Neighbours]:
    """Another node that knows the way to the pods."""
    other = make_node()
    wire = veth_between(node, other)
    other.run(["ip", "route", "add", "10.88.0.0/16", "via", wire.ipv4[0]])
    other.run(["ip", "route", "add", "fd00:88::/64", "via", wire.ipv6[0]])
    return other, wire


def elements(node: Node) -> str:
    return node.run(TABLE, check=False).stdout


def test_a_pod_is_in_the_table_while_it_lives(chain: Chain) -> None:
    chain.attach("one")
    before = chain.node.filtering()
    chain.adder.succeed("ADD", "one", prevResult=chain.results["one"])

    shown = elements(chain.node)
    assert '10.88.0.2 comment "net/id-one/eth0"' in shown
    assert 'fd00:88::2 comment "net/id-one/eth0"' in shown
    chain.succeed("CHECK", "one")
    chain.succeed("STATUS", "one")

    chain.succeed("DEL", "one")
    assert chain.node.filtering() == before
    chain.succeed("DEL", "one")


@pytest.mark.mostly_slow(2, "each back end; one is in make test")
@pytest.mark.parametrize("keys", [{}, {"backend": "iptables"}], ids=["default", "iptables"])
def test_a_pod_passes_a_firewall_that_refuses_all(
    node: Node, direct_bin_dir: Path, outside: tuple[Node, Neighbours], keys: dict[str, str]
) -> None:
    other, wire = outside
    chain = Chain(node, direct_bin_dir, keys, isDefaultGateway=True)
    for program in BOTH:
        node.run([program, "-P", "FORWARD", "DROP"])
    chain.attach("refused")
    chain.add("one")
    targets = (wire.ipv4[1], wire.ipv6[1])

    assert [chain.bridge.ping("one", target) for target in targets] == [True, True]
    assert [chain.bridge.ping("refused", target) for target in targets] == [False, False]
    # Answers pass; nothing that others begin does.
    assert other.run(["ping", "-c1", "-W1", "10.88.0.3"], check=False).returncode == 1
    chain.succeed("CHECK", "one")

    chain.succeed("DEL", "one")
    assert [chain.bridge.ping("one", target) for target in targets] == [False, False]


def test_a_rule_that_rejects_is_a_refusal_too(
    node: Node, direct_bin_dir: Path, outside: tuple[Node, Neighbours]
) -> None:
    chain = Chain(node, direct_bin_dir, isDefaultGateway=True)
    node.run(["iptables", "-A", "FORWARD", "-j", "REJECT"])

    chain.add("one")

    assert chain.bridge.ping("one", outside[1].ipv4[1])
    assert any("-s 10.88.0.2/32" in rule for rule in iptables_rules(node))
    assert not any("fd00" in rule for rule in iptables_rules(node))


def test_no_program_runs_if_iptables_refuses_nothing(node: Node, direct_bin_dir: Path, tmp_path: Path) -> None:
    node.run(["iptables", "-N", "ANOTHER"])
    node.run(["iptables", "-A", "FORWARD", "-j", "ANOTHER"])
    node.run(["iptables", "-A", "ANOTHER", "-s", "192.0.2.1", "-j", "DROP"])
    chain = Chain(node, direct_bin_dir)
    result = chain.attach("one")
    before = iptables_rules(node)
    for name in ("iptables", "ip6tables", "iptables-restore", "ip6tables-restore", "iptables-nft", "iptables-legacy"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho $0 >> {tmp_path}/run\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    path = {"extra_env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}}

    for keys in ({"backend": "nftables"}, {"backend": ""}):
        chain.adder.succeed("ADD", "one", prevResult=result, **keys, **path)
        for verb in ("CHECK", "REPAIR", "STATUS", "DEL"):
            chain.succeed(verb, "one", **keys, **path)

    assert not (tmp_path / "run").exists()
    assert iptables_rules(node) == before


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    "remove",
    [
        "flush ruleset",
        "flush chain inet cni_harness_firewall forward",
        "delete element inet cni_harness_firewall pods4 { 10.88.0.2 }",
        "delete element inet cni_harness_firewall pods6 { fd00:88::2 }",
    ],
)
def test_check_finds_a_loss_and_repair_mends_it(node: Node, direct_bin_dir: Path, remove: str) -> None:
    chain = Chain(node, direct_bin_dir)
    chain.add("one")
    chain.add("two")
    before = elements(node)
    node.run(["nft", remove])

    error = chain.fail("CHECK", "one")

    assert error["code"] == 999
    assert "is not admitted by nftables" in error["msg"]
    for pod in ("one", "two"):
        chain.succeed("REPAIR", pod)
        chain.succeed("CHECK", pod)
    assert sorted(elements(node).split()) == sorted(before.split())
    untouched = node.run(["nft", "-a", "list", "ruleset"]).stdout
    chain.succeed("REPAIR", "one")
    assert node.run(["nft", "-a", "list", "ruleset"]).stdout == untouched


def test_check_finds_that_iptables_refuses_since_the_add(node: Node, direct_bin_dir: Path) -> None:
    chain = Chain(node, direct_bin_dir)
    chain.add("one")
    chain.succeed("CHECK", "one")
    node.run(["ip6tables", "-P", "FORWARD", "DROP"])

    assert chain.fail("CHECK", "one")["msg"].startswith("fd00:88::2 is not admitted")
    chain.succeed("REPAIR", "one")

    chain.succeed("CHECK", "one")


@pytest.mark.parametrize("refuses", [False, True])
def test_del_needs_neither_result_nor_namespace(node: Node, direct_bin_dir: Path, *, refuses: bool) -> None:
    for program in BOTH if refuses else []:
        node.run([program, "-P", "FORWARD", "DROP"])
    chain = Chain(node, direct_bin_dir, {"ingressPolicy": "isolated"})
    chain.add("one")

    chain.ours.succeed("DEL", "one", netns="")

    assert elements(node) == ""
    assert [rule for rule in iptables_rules(node) if "-d " in rule or "-s " in rule] == []


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_a_late_del_leaves_the_next_pod_with_the_address_alone(node: Node, direct_bin_dir: Path, backend: str) -> None:
    chain = Chain(node, direct_bin_dir, {"backend": backend})
    chain.add("one")
    chain.succeed("DEL", "one")
    chain.attach("two")
    chain.results["two"]["ips"] = chain.results["one"]["ips"]
    chain.adder.succeed("ADD", "two", prevResult=chain.results["two"])

    chain.succeed("DEL", "one")

    chain.succeed("CHECK", "two")


def test_gc_removes_rules_of_invalid_attachments(node: Node, direct_bin_dir: Path) -> None:
    for program in BOTH:
        node.run([program, "-P", "FORWARD", "DROP"])
    chain = Chain(node, direct_bin_dir)
    other = Chain(node, direct_bin_dir, name="other", bridge="br1", ipam=ipam("10.99.0.0/16"))
    for pod in ("kept", "lost"):
        chain.add(pod)
    other.add("another")
    rules = iptables_rules(node)

    chain.ours.succeed("GC", "", **{"cni.dev/valid-attachments": [{"containerID": "id-kept", "ifname": "eth0"}]})

    shown = elements(node)
    assert "id-lost" not in shown
    assert "net/id-kept/eth0" in shown
    assert "other/id-another/eth0" in shown
    left = iptables_rules(node)
    assert sorted(set(rules) - set(left)) == sorted(rule for rule in rules if "10.88.0.3/32" in rule or "::3/" in rule)
    chain.succeed("CHECK", "kept")
    other.succeed("CHECK", "another")


def ipam(subnet: str) -> dict[str, Any]:
    return {"type": "host-local", "ranges": [[{"subnet": subnet}]]}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_administrators_chain_comes_first_and_stays(
    node: Node, direct_bin_dir: Path, outside: tuple[Node, Neighbours]
) -> None:
    chain = Chain(node, direct_bin_dir, isDefaultGateway=True)
    chain.add("one")
    node.run(["nft", "add rule inet cni_harness_firewall admin ip daddr 192.0.2.2 drop"])

    assert not chain.bridge.ping("one", outside[1].ipv4[1])
    assert chain.bridge.ping("one", outside[1].ipv6[1])

    node.run(["nft", "flush chain inet cni_harness_firewall forward"])
    chain.succeed("REPAIR", "one")
    chain.succeed("DEL", "one")
    assert "ip daddr 192.0.2.2 drop" in elements(node)
    chain.attach("two")
    chain.adder.succeed("ADD", "two", prevResult=chain.results["two"])
    assert not chain.bridge.ping("two", outside[1].ipv4[1])


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"backend": "ipchains"}, ["backend", '"ipchains"']),
        ({"ingressPolicy": "closed"}, ["ingressPolicy", '"closed"']),
        ({"firewalldZone": 5}, ["firewalldZone", "5"]),
        ({"iptablesAdminChainName": ["A"]}, ["iptablesAdminChainName", '["A"]']),
        ({"iptablesAdminChainName": "A B"}, ["iptablesAdminChainName", '"A B"']),
        ({"iptablesAdminChainName": "A" * 29}, ["iptablesAdminChainName", "A" * 29]),
        ({"prevResult": None}, ["prevResult", "missing"]),
    ],
)
def test_a_bad_key_is_named_and_changes_nothing(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], words: list[str]
) -> None:
    chain = Chain(node, direct_bin_dir)
    chain.attach("one")
    before = node.state()

    error = chain.fail("ADD", "one", **keys)

    assert error["code"] == 7
    assert all(word in error["msg"] for word in words), error
    node.assert_same_state(before)
    assert chain.ours.run("DEL", "one", **keys).code == 0


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("policy", ["open", "isolated"])
def test_a_failure_at_any_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, policy: str, fault_at: FaultAt
) -> None:
    node.pod_namespace("one")
    interfaces = [{"name": "br0"}, {"name": "veth1"}]
    ips = [{"address": "10.88.0.2/16"}, {"address": "fd00:88::2/64"}]
    result = {"cniVersion": "1.1.0", "interfaces": interfaces, "ips": ips}
    config = firewall_config(ipam={}, prevResult=result, ingressPolicy=policy)

    assert fails_at_every_step(node, direct_bin_dir, config, fault_at) >= 3


def test_many_at_once_are_all_admitted_and_all_removed(node: Node, direct_bin_dir: Path) -> None:
    config = firewall_config(ingressPolicy="same-bridge")
    script = f"""
number=$1
result='{{"cniVersion":"1.1.0","interfaces":[{{"name":"br0"}}],"ips":[{{"address":"10.88.1.'$number'/16"}}]}}'
config='{json.dumps(config)[:-1]},"prevResult":'$result'}}'
export CNI_CONTAINERID=id-$number CNI_IFNAME=eth0 CNI_NETNS=/run/netns/none CNI_PATH={direct_bin_dir}
echo "$config" | CNI_COMMAND=$2 {direct_bin_dir}/firewall
"""
    (node.folder / "one.sh").write_text(script)
    run = "seq 1 12 | xargs -P 12 -I N sh -e {} N {}"

    node.run(["sh", "-c", run.format(node.folder / "one.sh", "ADD")])
    assert elements(node).count("net/id-") == 12

    node.run(["sh", "-c", run.format(node.folder / "one.sh", "DEL")])
    assert elements(node) == ""


def test_start_up_loads_nothing_slow(node: Node, python_bin_dir: Path) -> None:
    config = firewall_config(prevResult={"cniVersion": "1.1.0", "ips": [{"address": "10.88.0.2/16"}]})
    for verb in ("ADD", "CHECK", "DEL", "STATUS"):
        loaded = loaded_by(node, python_bin_dir, verb, config)

        assert {module.partition(".")[0] for module in loaded} & (SLOW | {"jeepney"}) == set(), verb
