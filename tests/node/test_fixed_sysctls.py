"""Nodes under test and their pods start with the same kernel parameters on every machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.libcni.networks import parse_network_list
from harness.runtime import sandbox
from harness.runtime.node import Node as HarnessNode
from harness.runtime.pod_lifecycle import PodRuntime
from harness.runtime.pod_networks import NetworkPlan
from harness.runtime.sandbox import FIXED_SYSCTLS, create_sandbox, fix_sysctls
from harness.runtime.site import Site
from netlink.namespace import remove_namespace
from tests.nodes import Node

pytestmark = pytest.mark.sudo

ODD = {"0": "1", "1": "0", "-1": "7"}
# Values that no machine hands down: a namespace that has them got them from the table.
MARKS = {"net/ipv4/conf/all/rp_filter": "2", "net/ipv6/conf/default/accept_ra": "2", "net/ipv4/conf/lo/medium_id": "3"}
CHAIN = b'{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "noop"}]}'


def values(node: Node, netns: str) -> dict[str, str]:
    """The parameters in the table that this kernel has."""
    read = 'for key; do if [ -e "/proc/sys/$key" ]; then echo "$key $(cat "/proc/sys/$key")"; fi; done'
    lines = node.run(["sh", "-c", read, "sh", *FIXED_SYSCTLS], netns=netns).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines)


def marks(netns: str, node: Node) -> dict[str, str]:
    lines = node.run(["cat", *(f"/proc/sys/{key}" for key in MARKS)], netns=netns).stdout.splitlines()
    return dict(zip(MARKS, lines, strict=True))


def test_fixed_sysctls_replace_inherited_values(node: Node) -> None:
    netns = node.pod_namespace("odd")
    write = 'while [ $# -gt 0 ]; do if [ -e "/proc/sys/$1" ]; then echo "$2" > "/proc/sys/$1"; fi; shift 2; done'
    # Forwarding last: it sets others.
    pairs = [(key, ODD[value]) for key, value in reversed(list(FIXED_SYSCTLS.items()))]
    node.run(["sh", "-ec", write, "sh", *(word for pair in pairs for word in pair)], netns=netns)
    odd = values(node, netns)
    assert odd["net/ipv4/conf/lo/forwarding"] == odd["net/ipv6/conf/all/forwarding"] == "1"

    fix_sysctls(netns)

    fixed = values(node, netns)
    assert fixed == {key: FIXED_SYSCTLS[key] for key in fixed}
    assert [key for key in fixed if fixed[key] == odd[key]] == []
    assert node.run(["cat", "/proc/sys/net/ipv4/ip_forward"], netns=netns).stdout == "0\n"


def test_a_node_of_the_tests_and_its_pods_have_the_fixed_values(
    make_node: Callable[[], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "FIXED_SYSCTLS", MARKS)
    node = make_node()

    assert marks(node.path, node) == MARKS
    assert marks(node.pod_namespace("pod"), node) == MARKS


def test_a_named_node_and_its_pods_have_the_fixed_values(
    node: Node, direct_bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "FIXED_SYSCTLS", MARKS)
    named = HarnessNode(f"{node.name}-named", tmp_path / "harness")
    runtime = PodRuntime(named, bin_dirs=[direct_bin_dir], warn=pytest.fail)
    networks = [NetworkPlan(parse_network_list(CHAIN), "eth0", {}, {})]
    try:
        with named.in_use():
            added = runtime.add("default", "pod1", networks)

            assert marks(str(named.netns), node) == MARKS
            assert marks(added.pod.netns, node) == MARKS

            runtime.delete("default", "pod1")
    finally:
        named.remove()


def test_nodes_and_pods_of_a_conformance_run_have_the_fixed_values(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "FIXED_SYSCTLS", MARKS)

    with Site(tmp_path, "sysctls") as site:
        assert marks(str(site.node().netns), node) == MARKS
        assert marks(site.namespace(), node) == MARKS


def test_a_sandbox_on_this_host_is_as_the_kernel_makes_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "FIXED_SYSCTLS", MARKS)
    path = f"{node.path}-sandbox"

    create_sandbox(path, fixed=False)
    try:
        assert marks(path, node) != MARKS
    finally:
        remove_namespace(path)
