"""The nodes that tests run on: apart from the machine and from each other, and every change to one is seen."""

import json
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from harness.snapshot import differences
from tests.nodes import Node, veth_between

MakeNode = Callable[[], Node]


def test_a_new_node_has_lo_up_and_nothing_else(node: Node) -> None:
    state = node.state()

    assert list(state.section("node", "links")) == ["lo"]
    assert list(state.section("node", "addresses")) == ["127.0.0.1/8 dev lo", "::1/128 dev lo"]
    assert not any(node.filtering().values())


def test_a_node_is_another_namespace_than_the_test_runs_in(node: Node) -> None:
    inside = node.run(["readlink", "/proc/self/ns/net"]).stdout.strip()

    assert inside != str(Path("/proc/self/ns/net").readlink())


def test_var_lib_cni_is_the_nodes_own(make_node: MakeNode) -> None:
    one, other = make_node(), make_node()

    one.run(["sh", "-c", f"echo one > /var/lib/cni/{one.name}"])

    assert (one.var_lib_cni / one.name).read_text() == "one\n"
    assert one.run(["cat", f"/var/lib/cni/{one.name}"]).stdout == "one\n"
    assert list(other.var_lib_cni.iterdir()) == []
    assert not Path("/var/lib/cni", one.name).exists()


def test_a_namespace_made_on_the_node_is_seen_by_the_test_and_by_the_next_command(node: Node) -> None:
    name = f"{node.name}-inner"
    node.run(["ip", "netns", "add", name])
    try:
        assert Path("/run/netns", name).stat().st_dev == Path(node.path).stat().st_dev
        inside = node.run(["stat", "-L", "-c", "%i", "/proc/self/ns/net"], netns=f"/run/netns/{name}").stdout
        assert int(inside) == Path("/run/netns", name).stat().st_ino
    finally:
        node.run(["ip", "netns", "del", name])


def test_neighbours_reach_each_other_over_both_families(make_node: MakeNode) -> None:
    one, other = make_node(), make_node()

    wire = veth_between(one, other)

    one.run(["ping", "-c1", "-W2", wire.ipv4[1]])
    one.run(["ping", "-c1", "-W2", wire.ipv6[1]])


CHANGES = {
    "node/link/d0": "ip link add d0 type bridge",
    "node/link/b0": "ip link set b0 mtu 1400",
    "node/link/v0": "ip link set v0 type bridge_slave hairpin on",
    "node/address/192.0.2.9/24 dev b0": "ip address add 192.0.2.9/24 dev b0",
    "node/route/blackhole 198.51.100.0/24": "ip route add blackhole 198.51.100.0/24",
    "node/route/blackhole 2001:db8:9::/64*": "ip -6 route add blackhole 2001:db8:9::/64",
    "node/rule/inet 77: *": "ip rule add priority 77 from 192.0.2.0/24 table 77",
    "node/nft table/ip t": "nft add table ip t",
    "node/nft element/ip owned s *": "nft add element ip owned s { 192.0.2.7 }",
    "node/nft rule/ip owned c: *": "nft add rule ip owned c ip daddr 192.0.2.1 drop",
    "node/nft chain/ip nat LEFT-BEHIND": "iptables -t nat -N LEFT-BEHIND",
    "node/sysctl/net.ipv4.ip_forward": "echo 1 > /proc/sys/net/ipv4/ip_forward",
    "files/file/*/var-lib-cni/networks": "mkdir /var/lib/cni/networks",
    "files/file/*/var-lib-cni/kept": "echo changed > /var/lib/cni/kept",
}


@pytest.mark.parametrize(("thing", "change"), CHANGES.items(), ids=CHANGES)
def test_every_kind_of_change_is_a_difference(node: Node, thing: str, change: str) -> None:
    node.run(["sh", "-ec", "ip link add b0 type bridge; ip link add v0 type veth; ip link set v0 master b0"])
    node.run(["nft", "add table ip owned; add chain ip owned c; add rule ip owned c counter accept"])
    node.run(["nft", "add set ip owned s { type ipv4_addr; }"])
    (node.var_lib_cni / "kept").write_text("as it was")
    before = node.state()

    node.run(["sh", "-ec", change])

    names = [f"{each.place}/{each.thing}/{each.name}" for each in differences(before, node.state())]
    assert [name for name in names if fnmatchcase(name, thing)] != []
    with pytest.raises(AssertionError, match="is not as it was"):
        node.assert_same_state(before, ignore=["node/link/another"])
    node.assert_same_state(before, ignore=[thing, "node/nft table/ip nat"])


def test_counters_handles_and_ifindexes_are_no_difference(node: Node) -> None:
    node.run(["nft", "add table ip t; add chain ip t c { type filter hook output priority 0; }"])
    node.run(["nft", "add rule ip t c counter; add set ip t s { type ipv4_addr; }"])
    node.run(["nft", "add element ip t s { 192.0.2.1, 192.0.2.2 }; add table ip again"])
    before = node.state()

    node.run(["ping", "-c1", "127.0.0.1"])
    node.run(["nft", "delete element ip t s { 192.0.2.1 }"])
    node.run(["nft", "add element ip t s { 192.0.2.1 }"])
    node.run(["nft", "delete table ip again; add table ip again"])
    node.run(["ip", "link", "add", "gone", "type", "bridge"])
    node.run(["ip", "link", "delete", "gone"])

    node.assert_same_state(before)


def test_closing_a_node_removes_its_namespaces_though_a_pod_is_gone_already(
    tmp_path: Path, make_node: MakeNode
) -> None:
    node = Node(tmp_path)
    pods = [node.pod_namespace("a"), node.pod_namespace("b")]
    node.run(["ip", "netns", "del", Path(pods[0]).name])

    node.close()

    assert [path for path in (node.path, *pods) if os.path.lexists(path)] == []


def test_a_plugin_is_executed_with_exactly_the_variables_given(node: Node) -> None:
    script = '#!/bin/sh\necho noted >&2\nenv > $SEEN/env; cat > $SEEN/stdin; echo \'{"cniVersion": "1.0.0"}\'; exit 3\n'
    plugin = node.bin_dir / "spy"
    plugin.write_text(script)
    plugin.chmod(0o755)

    run = node.plugin(
        node.bin_dir, "spy", "ADD", {"name": "n"}, container_id="c1", netns="", extra_env={"SEEN": str(node.folder)}
    )

    assert run == (3, {"cniVersion": "1.0.0"}, "noted\n")
    assert json.loads((node.folder / "stdin").read_text()) == {"name": "n"}
    seen = dict(line.split("=", 1) for line in (node.folder / "env").read_text().splitlines())
    assert {name: value for name, value in seen.items() if name.startswith("CNI_") and "HARNESS" not in name} == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "",
        "CNI_PATH": str(node.bin_dir),
    }
