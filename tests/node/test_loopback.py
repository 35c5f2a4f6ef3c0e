"""loopback on a real kernel: `lo` of a pod, called as containerd calls it."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from skel import SUPPORTED
from tests.nodes import Node, PluginRun

CONFIG = {"cniVersion": "1.0.0", "name": "cni-loopback", "type": "loopback"}
RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": "NETNS"}],
    "ips": [{"address": "127.0.0.1/8", "interface": 0}, {"address": "::1/128", "interface": 0}],
}
ETH0_RESULT = {
    "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "NETNS"}],
    "ips": [{"address": "10.1.0.5/16", "interface": 0}],
}

Run = Callable[..., PluginRun]


@pytest.fixture
def pod(node: Node) -> str:
    """A pod's namespace as runtimes make it: `lo` is there, and down."""
    netns = node.pod_namespace("pod")
    set_lo(node, netns, "down")
    return netns


@pytest.fixture
def loopback(node: Node, bin_dir: Path, pod: str) -> Run:
    return partial(node.plugin, bin_dir, "loopback", container_id="c1", ifname="lo", netns=pod)


def set_lo(node: Node, netns: str, to: str) -> None:
    node.run(["ip", "link", "set", "lo", to], netns=netns)


def is_up(node: Node, netns: str) -> bool:
    [link] = node.ip("link", "show", "lo", netns=netns)
    return "UP" in link["flags"]


def result_in(netns: str, result: object = RESULT) -> Any:
    return json.loads(json.dumps(result).replace("NETNS", netns))


def test_add_brings_lo_up_and_reports_its_addresses(node: Node, pod: str, loopback: Run) -> None:
    assert not is_up(node, pod)

    run = loopback("ADD", CONFIG)

    assert run == (0, result_in(pod), "")
    assert is_up(node, pod)
    node.run(["ping", "-c1", "-W2", "127.0.0.1"], netns=pod)
    node.run(["ping", "-c1", "-W2", "::1"], netns=pod)


def test_add_again_gives_the_same_result(pod: str, loopback: Run) -> None:
    first = loopback("ADD", CONFIG)

    assert loopback("ADD", CONFIG) == first


def test_the_interface_name_and_the_arguments_do_not_matter(pod: str, loopback: Run) -> None:
    run = loopback("ADD", CONFIG, ifname="eth7", args="K8S_POD_NAME=pod1")

    assert run.stdout == result_in(pod)


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_version_of_the_specification_round_trips(node: Node, pod: str, loopback: Run, version: str) -> None:
    config = {**CONFIG, "cniVersion": version}

    added = loopback("ADD", config)
    again = {**config, "prevResult": added.stdout}
    checked = loopback("CHECK", again)
    deleted = loopback("DEL", again)

    assert added.code == 0
    assert added.stdout["cniVersion"] == version
    if version < "0.3":
        assert added.stdout == {"cniVersion": version, "ip4": {"ip": "127.0.0.1/8"}, "ip6": {"ip": "::1/128"}}
    else:
        assert [ip["address"] for ip in added.stdout["ips"]] == ["127.0.0.1/8", "::1/128"]
    assert checked.code == (0 if version >= "0.4" else 1)
    assert deleted == (0, None, "")
    assert not is_up(node, pod)


def test_a_previous_result_is_handed_on(node: Node, pod: str, loopback: Run) -> None:
    prev_result = result_in(pod, ETH0_RESULT)

    run = loopback("ADD", {**CONFIG, "prevResult": prev_result})

    assert run == (0, {"cniVersion": "1.0.0", **prev_result}, "")
    assert is_up(node, pod)


def test_without_ipv6_there_is_no_ipv6_address(node: Node, pod: str, loopback: Run) -> None:
    node.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6"], netns=pod)

    run = loopback("ADD", CONFIG)

    assert run.stdout["ips"] == [{"address": "127.0.0.1/8", "interface": 0}]


def test_only_the_first_address_of_a_family_is_reported(node: Node, pod: str, loopback: Run) -> None:
    set_lo(node, pod, "up")
    node.run(["ip", "address", "add", "127.0.0.2/8", "dev", "lo"], netns=pod)

    run = loopback("ADD", CONFIG)

    assert run.stdout == result_in(pod)


@pytest.mark.parametrize("address", ["192.0.2.1/32", "192.0.2.1 peer 127.0.0.9/32", "2001:db8::1/128"])
def test_an_address_that_does_not_belong_there_is_refused_and_nothing_changed(
    node: Node, pod: str, loopback: Run, address: str
) -> None:
    node.run(["ip", "address", "add", *address.split(), "dev", "lo"], netns=pod)

    run = loopback("ADD", CONFIG)

    assert (run.code, run.stdout["code"]) == (1, 999)
    assert run.stdout["msg"] == f"lo has a non-loopback address: {address.replace(' peer 127.0.0.9', '')}"
    assert not is_up(node, pod)


def test_addresses_of_other_interfaces_do_not_count(node: Node, pod: str, loopback: Run) -> None:
    node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=pod)
    node.run(["ip", "address", "add", "192.0.2.1/24", "dev", "eth0"], netns=pod)

    assert loopback("ADD", CONFIG).stdout == result_in(pod)


def test_check_passes_after_add(pod: str, loopback: Run) -> None:
    added = loopback("ADD", CONFIG)

    assert loopback("CHECK", {**CONFIG, "prevResult": added.stdout}) == (0, None, "")
    assert loopback("CHECK", CONFIG) == (0, None, "")


def test_check_sees_lo_down(node: Node, pod: str, loopback: Run) -> None:
    added = loopback("ADD", CONFIG)
    set_lo(node, pod, "down")

    run = loopback("CHECK", {**CONFIG, "prevResult": added.stdout})

    assert (run.code, run.stdout["code"], run.stdout["msg"]) == (1, 999, f"lo in {pod} is down")


def test_check_sees_a_lost_address(node: Node, pod: str, loopback: Run) -> None:
    added = loopback("ADD", CONFIG)
    node.run(["ip", "address", "del", "::1/128", "dev", "lo"], netns=pod)

    run = loopback("CHECK", {**CONFIG, "prevResult": added.stdout})

    assert (run.code, run.stdout["code"], run.stdout["msg"]) == (1, 999, f"lo in {pod} has lost ::1/128")


def test_check_leaves_the_addresses_of_other_interfaces_to_their_plugins(pod: str, loopback: Run) -> None:
    prev_result = result_in(pod, ETH0_RESULT)
    prev_result["interfaces"].append({"name": "lo"})  # the node's
    prev_result["ips"].append({"address": "192.0.2.1/32", "interface": 1})
    loopback("ADD", CONFIG)

    assert loopback("CHECK", {**CONFIG, "prevResult": prev_result}) == (0, None, "")


def test_delete_brings_lo_down_as_often_as_it_is_called(node: Node, pod: str, loopback: Run) -> None:
    loopback("ADD", CONFIG)

    assert [loopback("DEL", CONFIG) for _ in range(2)] == [(0, None, "")] * 2
    assert not is_up(node, pod)


@pytest.mark.parametrize("netns", [None, "", "/run/netns/gone-long-ago"])
def test_delete_succeeds_without_a_namespace(loopback: Run, netns: str | None) -> None:
    assert loopback("DEL", CONFIG, netns=netns) == (0, None, "")


def test_delete_succeeds_if_the_netns_is_a_plain_file(loopback: Run, tmp_path: Path) -> None:
    leftover = tmp_path / "netns"
    leftover.touch()

    run = loopback("DEL", CONFIG, netns=str(leftover))

    assert (run.code, run.stdout) == (0, None)
    assert str(leftover) in run.stderr


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_add_and_check_name_an_invalid_netns(loopback: Run, tmp_path: Path, verb: str, kind: str) -> None:
    path = tmp_path / "netns"
    if kind == "file":
        path.touch()

    run = loopback(verb, CONFIG, netns=str(path))

    assert (run.code, run.stdout["code"]) == (1, 4)
    assert f'CNI_NETNS: cannot open the network namespace "{path}": ' in run.stdout["msg"]


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_a_descriptor_of_the_plugin_itself_is_refused(loopback: Run, verb: str) -> None:
    run = loopback(verb, CONFIG, netns="/proc/self/fd/0")

    assert (run.code, run.stdout["code"]) == (1, 4)
    assert 'CNI_NETNS: "/proc/self/fd/0" is a file descriptor' in run.stdout["msg"]


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_the_nodes_own_namespace_is_refused(node: Node, loopback: Run, verb: str) -> None:
    run = loopback(verb, CONFIG, netns=node.path)

    assert (run.code, run.stdout["code"]) == (1, 8)
    assert is_up(node, node.path)


def test_gc_and_status_have_nothing_to_do(node: Node, loopback: Run) -> None:
    config = {**CONFIG, "cniVersion": "1.1.0"}
    before = node.state()

    gc = loopback("GC", {**config, "cni.dev/valid-attachments": []}, container_id=None, ifname=None, netns=None)
    status = loopback("STATUS", config, container_id="", ifname="", netns="", args="")

    assert (gc, status) == ((0, None, ""), (0, None, ""))
    node.assert_same_state(before)


def test_nothing_on_the_node_changes(node: Node, loopback: Run) -> None:
    before = node.state()

    loopback("ADD", CONFIG)
    node.assert_same_state(before)
    loopback("DEL", CONFIG)

    node.assert_same_state(before)


def test_many_pods_at_once(node: Node, bin_dir: Path) -> None:
    pods = [node.pod_namespace(f"pod{number}") for number in range(20)]

    def add(netns: str) -> PluginRun:
        set_lo(node, netns, "down")
        return node.plugin(bin_dir, "loopback", "ADD", CONFIG, container_id="c1", ifname="lo", netns=netns)

    with ThreadPoolExecutor(10) as pool:
        runs = list(pool.map(add, pods))

    assert runs == [(0, result_in(netns), "") for netns in pods]


def test_loopback_loads_no_slow_module(node: Node, python_bin_dir: Path, pod: str) -> None:
    environ = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": pod, "CNI_IFNAME": "lo"}

    run = node.run(
        [sys.executable, "-IS", "-X", "importtime", python_bin_dir / "loopback"], env=environ, stdin=json.dumps(CONFIG)
    )

    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "netlink.addresses" in imported
    assert not {name for name in imported if name.partition(".")[0] in {"pyroute2", "netaddr", "logging", "inspect"}}
