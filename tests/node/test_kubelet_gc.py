"""Verbs for pods of `add` leave the pods of manifests alone."""

import pytest

from tests.manifests import FOREVER, KubeletNode, container, pod

pytestmark = pytest.mark.sudo


def _ports(node: KubeletNode) -> set[str]:
    """Return the bridge's ports."""
    return {link["ifname"] for link in node.ip("link") if link.get("master") == "net0"}


def test_gc_keeps_the_network_of_a_manifests_pod(bridged: KubeletNode) -> None:
    bridged.start(pod("web", container("app", command=FOREVER)))
    before = (_ports(bridged), bridged.reservations("net"))

    (network,) = bridged.json("gc")["networks"]

    assert (network["deleted"], network["error"]) == ([], "")
    assert (_ports(bridged), bridged.reservations("net")) == before
    assert before[0]


def test_a_node_with_a_manifests_pod_is_not_removed(bridged: KubeletNode) -> None:
    bridged.start(pod("web", container("app", command=FOREVER)))

    run = bridged.run("del", "other", "--prune", check=False)

    assert f"Kept node {bridged.node}: it has pods" in run.stderr
    assert bridged.one("web")["status"]["phase"] == "Running"
    assert _ports(bridged)


def test_prune_removes_the_bridge_of_a_manifests_pod(bridged: KubeletNode) -> None:
    bridged.start(pod("web", container("app", command=FOREVER)))
    assert "net0" in {link["ifname"] for link in bridged.ip("link")}

    bridged.run("delete", "web")
    kept = {link["ifname"] for link in bridged.ip("link")}
    run = bridged.run("del", "--all", "--prune")

    assert "net0" in kept
    assert "Removed net0, which had no ports left" in run.stderr
    assert f"Removed node {bridged.node}" in run.stderr
