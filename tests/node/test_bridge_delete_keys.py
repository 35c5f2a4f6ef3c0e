"""DEL and GC of the bridge plugin with keys that cannot be read: everything is removed that they can find."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK, Network, bridge_config
from tests.nodes import HANG, Node

REST = ["files/*last_reserved_ip*"]


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    network.add("first")
    network.succeed("DEL", "first")
    return network


@pytest.mark.mostly_slow(4, "each key; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"mtu": -1}, "mtu: expected an MTU in bytes from 0 to 65535, got -1"),
        ({"ipMasqBackend": "pf"}, 'ipMasqBackend: expected "nftables" or "iptables", got "pf"'),
        ({"ipMasqExcept": ["x"]}, 'ipMasqExcept[0]: expected a CIDR, got "x"'),
        ({"bridge": "much-too-long-a-name"}, "bridge: expected an interface name"),
        ({"ipMasq": "yes"}, 'ipMasq: expected true or false, got "yes"'),
        ({"macspoofchk": 1}, "macspoofchk: expected true or false, got 1"),
        ({"vlanTrunk": [{"id": 99999}]}, "vlanTrunk[0].id: expected a VLAN ID"),
        ({"dns": 5}, "dns: expected an object, got 5"),
        ({"runtimeConfig": 5}, "runtimeConfig: expected an object, got 5"),
        ({"ipam": DUAL_STACK | {"subnet": "10.88.0.0/33"}}, 'ipam.subnet: expected a CIDR, got "10.88.0.0/33"'),
        ({"ipam": DUAL_STACK | {"ranges": [[{"subnet": 5}]]}}, "ipam.ranges[0][0].subnet: expected a CIDR, got 5"),
        ({"ipam": DUAL_STACK | {"routes": [{"dst": "x"}]}}, ""),  # DEL does not read them: there may be thousands
    ],
)
def test_del_warns_of_bad_keys_that_it_does_not_need(network: Network, keys: dict[str, Any], told: str) -> None:
    before = network.node.state()
    network.add("one")
    network.node.pod_namespace("refused")
    assert network.fail("ADD", "refused", **keys)["code"] == 7

    ran = network.run("DEL", "one", **keys)

    assert (ran.code, ran.stdout) == (0, None)
    assert told in ran.stderr
    network.node.assert_same_state(before, ignore=[*REST, "*refused*", "*one*"], within=HANG)


def test_cni_args_that_add_refused_are_passed_over(network: Network) -> None:
    before = network.node.state()
    network.add("one")

    for args in ("none", "COLOUR=blue"):
        ran = network.node.plugin(
            network.bin_dir,
            "bridge",
            "DEL",
            network.config,
            container_id="id-one",
            ifname="eth0",
            netns=network.namespace("one"),
            args=args,
        )

        assert (ran.code, ran.stdout) == (0, None)
        assert "CNI_ARGS" in ran.stderr
    network.node.assert_same_state(before, ignore=[*REST, "*one*"], within=HANG)


@pytest.mark.parametrize(
    ("keys", "code", "named"),
    [
        ({"name": "a/b"}, 7, "name"),
        ({"name": 5}, 6, "name"),
        ({"ipam": DUAL_STACK | {"type": 5}}, 7, "ipam.type"),
        ({"ipam": 5}, 7, "ipam"),
        ({"ipam": DUAL_STACK | {"dataDir": 5}}, 7, "ipam.dataDir"),
        ({"ipam": {"type": "no-such-plugin"}}, 7, "no-such-plugin"),
    ],
)
def test_del_with_bad_state_keys_fails_after_removing_the_rest(
    network: Network, keys: dict[str, Any], code: int, named: str
) -> None:
    result = network.add("one")

    error = network.fail("DEL", "one", prevResult=result, **keys)

    assert (error["code"], named in error["msg"]) == (code, True), error
    assert network.node.ip("link", "show", "type", "veth") == []
    if "name" not in keys:
        assert network.node.nft() == []
    # The runtime comes back with what it had at first.
    network.succeed("DEL", "one", prevResult=result)
    assert network.node.nft() == []
    assert "id-one" not in str(network.node.state())


@pytest.mark.parametrize(
    "keys",
    [
        {"mtu": -1},
        {"ipMasqBackend": "pf"},
        {"ipam": DUAL_STACK | {"subnet": 5}},
        {"bridge": "much-too-long-a-name"},
    ],
)
def test_gc_warns_of_bad_keys_that_it_does_not_need(network: Network, keys: dict[str, Any]) -> None:
    before = network.node.state()
    network.add("one")

    ran = network.node.plugin(
        network.bin_dir, "bridge", "GC", network.config | {"cni.dev/valid-attachments": []} | keys
    )

    assert (ran.code, ran.stdout) == (0, None)
    assert "expected" in ran.stderr
    network.node.assert_same_state(before, ignore=[*REST, "*one*"], within=HANG)
