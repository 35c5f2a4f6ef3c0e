"""DEL of the bridge plugin: from the container ID alone, as often as asked, whatever is gone already."""

from pathlib import Path
from typing import Any

import pytest

from firewall import masquerade_nft as masquerade
from firewall import spoofcheck_nft as spoofcheck
from harness.snapshot import Snapshot
from netlink.namespace import remove_namespace
from tests.attachments import SHARED_BY_PODS, Network, bridge_config
from tests.node.faults import INJECTED, dispatched, failing_once
from tests.nodes import HANG, Node

# The pod's masquerading, by hashes of the network and of "eth0:id-one", and its check.
LEFT_BY_THE_REFERENCE = """
table inet cni_plugins_masquerade {
    chain masq_checks { ip saddr 10.88.0.2 masquerade comment "a4861f4ae9f7d238-912d8c0d8ced64f7"; }
}
table bridge nat {
    chain cni-br-iface-id-one-eth0-mac { }
    chain cni-br-iface-id-one-eth0 { jump cni-br-iface-id-one-eth0-mac; }
    chain PREROUTING { jump cni-br-iface-id-one-eth0 comment "macspoofchk-id-one-eth0"; }
}
"""


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))


@pytest.fixture
def warm(network: Network) -> Snapshot:
    """The state of a node that has had a pod."""
    network.add("first")
    network.succeed("DEL", "first")
    return network.node.state()


def test_nothing_is_left_but_the_bridge(network: Network) -> None:
    before = network.node.state()
    result = network.add("one")
    network.succeed("DEL", "one", prevResult=result)

    network.node.assert_same_state(before, ignore=SHARED_BY_PODS)
    assert network.node.ip("link", "show", "type", "veth") == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_del_with_any_prev_result_leaves_the_same_state(network: Network, warm: Snapshot) -> None:
    ways: list[dict[str, Any]] = [{}, {"prevResult": None}, {"prevResult": {"ips": "corrupt"}}]
    for number, keys in enumerate(ways):
        pod = f"pod-{number}"
        network.add(pod)
        ran = network.run("DEL", pod, **keys)

        assert ran.code == 0, ran
        network.node.assert_same_state(warm, ignore=["files/*last_reserved_ip*", f"*{pod}*"])


def test_del_may_be_repeated(network: Network, warm: Snapshot) -> None:
    result = network.add("one")

    network.succeed("DEL", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    network.succeed("DEL", "one")
    network.node.assert_same_state(warm, ignore=["files/*last_reserved_ip*"])


def test_never_added(network: Network, warm: Snapshot) -> None:
    network.node.pod_namespace("stranger")

    network.succeed("DEL", "stranger")
    network.node.assert_same_state(warm)


@pytest.mark.parametrize("netns", ["", "/run/netns/never-there"])
def test_the_namespace_is_not_given_or_gone(network: Network, warm: Snapshot, netns: str) -> None:
    network.add("one")
    if netns:
        remove_namespace(network.namespace("one"))

    network.succeed("DEL", "one", netns=netns)
    # Without a namespace to look into, the pod's interface went with the host's end.
    network.node.assert_same_state(warm, ignore=["files/*last_reserved_ip*"], within=HANG)


def test_the_namespace_is_a_file(network: Network, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    network.add("one")

    network.succeed("DEL", "one", netns=str(plain))
    assert network.node.ip("link", "show", "type", "veth") == []


def test_another_pod_is_left_alone(network: Network) -> None:
    network.add("one")
    network.add("two")
    address = network.addresses("two")[0]

    network.succeed("DEL", "one")
    assert network.ping("two", "10.88.0.1")
    assert address in str(network.node.nft())


def test_del_with_the_namespace_of_another_pod_keeps_that_pod(network: Network) -> None:
    """As with /proc/PID/ns/net, when the number has gone round."""
    network.add("one")
    network.add("two")
    network.succeed("DEL", "one")

    network.succeed("DEL", "one", netns=network.namespace("two"))
    assert network.ping("two", "10.88.0.1")


def test_del_with_the_namespace_of_the_node_is_refused_but_removes_the_pod(network: Network, warm: Snapshot) -> None:
    """It is refused, as the reference does, but nothing of the pod is left for that, and nothing of the node taken."""
    network.add("one")
    network.node.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "uplink"])

    error = network.fail("DEL", "one", netns="/proc/self/ns/net")

    assert (error["code"], "/proc/self/ns/net" in error["msg"]) == (8, True)
    assert {link["ifname"] for link in network.node.ip("link", "show", "type", "veth")} == {"eth0", "uplink"}
    network.node.run(["ip", "link", "delete", "eth0"])
    network.node.assert_same_state(warm, ignore=["files/*last_reserved_ip*"], within=HANG)


@pytest.mark.parametrize(
    ("keys", "code", "named"),
    [
        ({"runtimeConfig": {"mac": "none"}}, 7, "runtimeConfig.mac"),
        ({"args": "MAC=none"}, 4, "CNI_ARGS: MAC"),
    ],
)
def test_del_ignores_pod_values_that_add_refused(network: Network, keys: dict[str, Any], code: int, named: str) -> None:
    network.node.pod_namespace("one")
    error = network.fail("ADD", "one", **keys)

    assert (error["code"], error["msg"]) == (code, f'{named}: expected a MAC address, got "none"')
    network.succeed("DEL", "one", **keys)


def test_del_continues_after_a_failing_delegate(network: Network) -> None:
    network.add("one")

    error = network.fail("DEL", "one", ipam={"type": "no-such-plugin"})

    assert "no-such-plugin" in error["msg"] + error.get("details", "")
    assert network.node.ip("link", "show", "type", "veth") == []
    assert network.node.nft() == []


def test_del_continues_after_a_failing_backend(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever suite and back end did the masquerading, and the checks of source addresses."""
    network = Network(node, direct_bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    network.add("one", ipMasqBackend="iptables", macspoofchk=False)
    node.run(["nft", "-f", "-"], stdin=LEFT_BY_THE_REFERENCE)
    failing_once(monkeypatch, masquerade, "remove")
    failing_once(monkeypatch, spoofcheck, "remove")

    outcome = dispatched(node, direct_bin_dir, "DEL", network.config, "one")

    assert outcome.code == 1, outcome
    assert outcome.stdout.decode().count(INJECTED) == 2
    assert {entry["chain"]["name"] for entry in node.nft() if "chain" in entry} == {
        "POSTROUTING",
        "PREROUTING",
        "masq_checks",
    }
    assert [entry["rule"] for entry in node.nft() if "rule" in entry] == []
