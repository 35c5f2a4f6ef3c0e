"""Snapshots of several namespaces, of such as go away, without a tool; and that taking one changes nothing."""

import itertools
import json
import sys
from pathlib import Path

import pytest

from harness.snapshot import Snapshot, SnapshotError, differences, take
from netlink.namespace import remove_namespace
from tests.cli import ROOT
from tests.nodes import Node, until

EVERYTHING = """
ip link add br0 type bridge
ip link set br0 up
ip address add 10.1.0.1/24 dev br0
ip link add veth0 type veth peer name veth1
ip link set veth0 master br0 up
ip link set veth1 up
ip route add default via 10.1.0.9
ip rule add from 10.1.0.2 lookup 100
ip neighbour add 10.1.0.8 lladdr 02:00:00:00:00:08 dev br0
tc qdisc add dev veth0 clsact
iptables-nft -t nat -A POSTROUTING -m comment --comment pod1 -j MASQUERADE
ip6tables-nft -A FORWARD -m comment --comment pod1 -j ACCEPT
nft add table inet t
"""

# As the tools show it, indexes and handles and all: nothing of ours has a hand in this.
LOOK = """
ip link; ip address; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule
ip neighbour show nud all; ip neighbour show proxy; bridge fdb; tc qdisc; nft -a list ruleset
cat /proc/net/ip_tables_names /proc/net/ip6_tables_names; find /proc/sys/net | sort
"""

LEGACY = """
iptables-legacy -A FORWARD -i br0 -j ACCEPT
ip6tables-legacy -t nat -N CNI-1
"""


def in_words(before: Snapshot, after: Snapshot) -> list[str]:
    return [difference.in_words() for difference in differences(before, after)]


def settled(node: Node) -> bool:
    """Whether the carrier has come, and what comes with it."""
    links = {link["ifname"]: link for link in node.ip("address") if link["ifname"] != "lo"}
    addresses = [address for link in links.values() for address in link["addr_info"]]
    up = all(link["operstate"] == "UP" for link in links.values())
    automatic = sum(address["scope"] == "link" for address in addresses)
    return up and automatic == len(links) and not any("tentative" in address for address in addresses)


def test_diff_names_the_place_of_a_peer(node: Node) -> None:
    pod = node.pod_namespace("pod")
    places = {"node": node.path, "pod1": pod}
    before = take(places)
    mac = "02:00:00:00:00"
    ends = [f"veth0 address {mac}:01", f"eth0 address {mac}:02 netns {Path(pod).name}"]
    node.run(["sh", "-ec", f"ip link add {ends[0]} type veth peer name {ends[1]}"])

    assert in_words(before, take(places)) == [
        f"+ node: link veth0 (veth, down, mtu 1500, peer eth0 in pod1, mac {mac}:01)",
        f"+ pod1: link eth0 (veth, down, mtu 1500, peer veth0 in node, mac {mac}:02)",
    ]
    [alone] = [take({"node": node.path}).section("node", "links")["veth0"]]
    assert isinstance(alone, dict)
    assert alone["peer"] == "elsewhere"


def test_peer_outside_the_snapshot_is_no_difference(node: Node) -> None:
    pod = node.pod_namespace("pod")
    node.run(["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", Path(pod).name])
    without, with_pod = take({"node": node.path}), take({"node": node.path, "pod1": pod})

    [line] = in_words(without, with_pod)

    assert line.startswith(f"+ pod1: namespace {pod} (links eth0")


def test_removed_namespace_is_one_line(node: Node) -> None:
    pod = node.pod_namespace("pod")
    node.run(["ip", "address", "add", "10.1.0.2/24", "dev", "lo"], netns=pod)
    before = take({"pod1": pod})
    remove_namespace(pod)
    after = take({"pod1": pod})

    assert after.section("pod1", "namespace") == {pod: {"state": "gone"}}
    assert in_words(before, after) == [f"- pod1: namespace {pod}"]
    assert in_words(after, before) == [f"+ pod1: namespace {pod}"]
    assert in_words(after, take({"pod1": pod})) == []


def test_taking_a_snapshot_changes_nothing(node: Node) -> None:
    node.run(["sh", "-ec", EVERYTHING])
    until(lambda: settled(node))
    before = node.run(["sh", "-c", LOOK]).stdout
    first = take({"node": node.path})
    after = node.run(["sh", "-c", LOOK]).stdout

    assert before == after
    assert first == take({"node": node.path})


def test_snapshot_of_an_empty_namespace_creates_nothing(node: Node) -> None:
    assert take({"node": node.path}) == take({"node": node.path})
    assert node.nft() == []
    assert node.run(["sh", "-c", "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names"], check=False).stdout == ""


def test_a_snapshot_survives_json(node: Node, tmp_path: Path) -> None:
    node.run(["sh", "-ec", EVERYTHING])
    taken = take({"node": node.path}, [tmp_path])

    assert Snapshot.from_document(json.loads(json.dumps(taken.to_document()))) == taken


def test_links_may_come_and_go_meanwhile(node: Node) -> None:
    churn = "ip link add v0 type veth peer name v1; tc qdisc add dev v0 clsact; ip link delete v0"
    before = take({"node": node.path})
    with node.background(["sh", "-ec", f"for i in $(seq 60); do {churn}; done"]) as running:
        taken = 0
        while running.poll() is None:
            take({"node": node.path})
            taken += 1

    assert (running.returncode, taken > 0) == (0, True)
    assert in_words(before, take({"node": node.path})) == []


def test_snapshot_has_legacy_iptables_rules(node: Node) -> None:
    if node.run(["sh", "-ec", LEGACY], check=False).returncode != 0:
        pytest.skip("this kernel has no legacy iptables (CONFIG_IP_NF_IPTABLES_LEGACY)")
    before = take({"node": node.path})
    node.run(["iptables-legacy", "-A", "FORWARD", "-m", "comment", "--comment", "pod1", "-j", "DROP"])
    node.run(["iptables-legacy", "-P", "FORWARD", "DROP"])
    node.run(["ip6tables-legacy", "-t", "nat", "-X", "CNI-1"])

    assert in_words(before, take({"node": node.path})) == [
        "~ node: iptables table legacy ip filter: FORWARD ACCEPT -> DROP",
        "- node: iptables chain legacy ip6 nat CNI-1",
        "+ node: iptables rule legacy ip filter FORWARD: -m comment --comment pod1 -j DROP",
    ]


def test_snapshot_shows_a_secret_only_as_a_digest(node: Node) -> None:
    states = [take({"node": node.path})]
    for value in ("2001:db8::5ec4:e7", "2001:db8::07e4"):
        node.run(["sh", "-ec", f"cd /proc/sys/net/ipv6/conf/lo; echo {value} > stable_secret; echo 0 > addr_gen_mode"])
        states.append(take({"node": node.path}))

    told = [in_words(*pair) for pair in itertools.pairwise(states)]
    assert [len(lines) for lines in told] == [1, 1]
    assert told[0][0].startswith("+ node: sysctl net.ipv6.conf.lo.stable_secret = sha256 ")
    assert told[1][0].startswith("~ node: sysctl net.ipv6.conf.lo.stable_secret: sha256 ")
    assert not any("5ec4" in line for line in told[0] + told[1])


def test_a_tool_that_is_not_installed_is_named(node: Node) -> None:
    # Only in this node's mount namespace.
    node.run(["sh", "-ec", "for tool in tc nft; do mount --bind /dev/null $(readlink -f $(command -v $tool)); done"])
    script = "import sys; from harness.cli.main import main; main()"
    command = [sys.executable, "-c", script, "snapshot", "--netns", f"node={node.path}", "-o", "json"]

    run = node.run(command, env={"PYTHONPATH": str(ROOT)})

    snapshot = Snapshot.from_document(json.loads(run.stdout))
    assert snapshot.missing == (
        "nft is not installed: nftables are not in the snapshot",
        "tc is not installed: qdiscs, classes and filters are not in the snapshot",
    )
    assert run.stderr.splitlines() == list(snapshot.missing)
    assert not {"node/qdiscs", "node/filters", "node/nft rules"} & snapshot.sections.keys()
    node.run(["sh", "-ec", EVERYTHING.replace("tc qdisc", ": ").replace("nft add", ": ")])
    assert {difference.thing for difference in differences(snapshot, take({"node": node.path}))} == {
        "link",
        "address",
        "route",
        "rule",
        "neighbour",
        "iptables rule",
    }


def test_error_has_the_message_of_a_failing_tool(node: Node, tmp_path: Path) -> None:
    failing = tmp_path / "ip"
    failing.write_text("#!/bin/sh\necho 'Cannot open netlink socket: no such thing' >&2\nexit 255\n")
    failing.chmod(0o755)
    script = "import sys; from harness.cli.main import main; main()"
    command = [sys.executable, "-c", script, "snapshot", "--netns", f"node={node.path}"]
    path = f"{tmp_path}:{node.environment['PATH']}"

    run = node.run(command, env={"PYTHONPATH": str(ROOT), "PATH": path}, check=False)

    assert run.returncode == 1
    assert run.stdout == ""
    assert "Cannot open netlink socket: no such thing" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_path_that_is_no_namespace_is_gone_or_an_error(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")

    assert take({"pod1": str(tmp_path / "plain")}).section("pod1", "namespace") == {
        str(tmp_path / "plain"): {"state": "gone"}
    }
    with pytest.raises(SnapshotError, match="Not a directory"):
        take({"pod1": str(tmp_path / "plain" / "below")})
    with pytest.raises(SnapshotError, match="label 'a/b'"):
        take({"a/b": str(tmp_path)})
