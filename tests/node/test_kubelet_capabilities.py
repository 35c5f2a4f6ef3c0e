"""Pods of manifests whose network list has no plugin for their host ports and bandwidth annotations."""

import json
from typing import Any

import pytest

from tests.manifests import WIRES, KubeletNode, container, pod

pytestmark = pytest.mark.sudo

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
PORT = "host port 18082/tcp has no effect: no plugin of network wires has the capability portMappings"
LIMIT = (
    "annotation kubernetes.io/ingress-bandwidth=10M has no effect: "
    "no plugin of network wires has the capability bandwidth"
)


def asking() -> dict[str, Any]:
    """A pod with a host port and a bandwidth annotation."""
    manifest = pod("web", container("app", ports=[{"containerPort": 80, "hostPort": 18082}]))
    manifest["metadata"]["annotations"] = {"kubernetes.io/ingress-bandwidth": "10M"}
    return manifest


def wires(*plugins: dict[str, Any]) -> dict[str, Any]:
    """The network list, with further plugins."""
    return WIRES | {"plugins": [*WIRES["plugins"], *plugins]}


def warnings(node: KubeletNode) -> list[tuple[str, str]]:
    return [(each["reason"], each["message"]) for each in node.events("web") if each["type"] == "Warning"]


def missing(node: KubeletNode) -> list[dict[str, Any]]:
    """What `diagnose` says of capabilities."""
    found = json.loads(node.run("diagnose", "-o", "json", check=False).stdout)["faults"]
    return [each for each in found if each["check"] == "capability-missing"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_unserved_requests_are_in_events_describe_and_diagnose(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(wires())

    kubelet_node.start(asking())

    assert warnings(kubelet_node) == [("HostPortNotSupported", PORT), ("BandwidthNotSupported", LIMIT)]
    lines = kubelet_node.run("describe", "web").stdout.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines if line.startswith("Not Supported:")] == [PORT, LIMIT]
    found = missing(kubelet_node)
    assert [each["subject"] for each in found] == [
        "host port 18082/tcp",
        "annotation kubernetes.io/ingress-bandwidth=10M",
    ]
    assert [json.dumps(plugin) in each["remedy"] for each, plugin in zip(found, (PORTMAP, BANDWIDTH), strict=True)] == [
        True,
        True,
    ]
    assert all(each["pods"] == ["default/web"] for each in found)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_list_with_the_capabilities_gives_no_warning(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(wires(PORTMAP, BANDWIDTH))

    kubelet_node.start(asking())

    assert warnings(kubelet_node) == []
    assert "Not Supported:" not in kubelet_node.run("describe", "web").stdout
    assert missing(kubelet_node) == []


def test_each_network_of_a_pod_needs_the_capability_of_its_own_ports(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(wires(PORTMAP, BANDWIDTH))
    plugin = {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.79.0.0/24"}]]}}
    (kubelet_node.conf_dir / "50-other.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": [plugin]})
    )
    own = [{"hostPort": 18083, "containerPort": 80, "protocol": "tcp"}]
    manifest = asking()
    manifest["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json.dumps(
        [{"name": "other", "portMappings": own}]
    )

    kubelet_node.start(manifest)

    said = "host port 18083/tcp has no effect: no plugin of network other has the capability portMappings"
    assert warnings(kubelet_node) == [("HostPortNotSupported", said)]


def test_pod_of_the_nodes_network_needs_no_capability(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(wires())
    app = container("app", ports=[{"containerPort": 18084, "hostPort": 18084}])

    kubelet_node.start(pod("web", app, hostNetwork=True))

    assert warnings(kubelet_node) == []
    assert "Not Supported:" not in kubelet_node.run("describe", "web").stdout


def test_port_of_add_by_cap_without_the_capability_is_warned_of_and_found(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(wires())
    mapping = [{"hostPort": 18082, "containerPort": 80, "protocol": "tcp"}]

    run = kubelet_node.run("add", "bare", "--cap", f"portMappings={json.dumps(mapping)}")

    assert f"Warning: {PORT}" in run.stderr
    [found] = missing(kubelet_node)
    assert found["pods"] == ["default/bare"]
    assert f"to the plugins in {kubelet_node.conf_dir}/" in found["remedy"]
    assert "del bare" in found["remedy"]
    refused = kubelet_node.run("add", "other", "-p", "18083:80", check=False)
    assert refused.returncode == 1
    assert "-p 18083:80: no plugin of network wires has the capability portMappings" in refused.stderr
