"""Defaults of a pod, and what makes it a static pod of a node."""

from pathlib import Path

import pytest

from api.defaults import with_defaults
from api.manifest import pod_of
from api.validation.pod import validate_pod
from harness.kubelet.sources import static_pod
from tests.unit.pod_manifests import changed, defaulted, sound

FILE = Path("/etc/kubernetes/manifests/web.yaml")


def test_a_pod_has_the_api_servers_defaults() -> None:
    pod = defaulted({"spec.volumes[1].hostPath": {"path": "/srv"}, "spec.volumes[3]": {"name": "none"}})

    spec = pod.spec
    assert (
        spec.dns_policy,
        spec.restart_policy,
        spec.scheduler_name,
        spec.termination_grace_period_seconds,
        spec.enable_service_links,
    ) == ("ClusterFirst", "Always", "default-scheduler", 30, True)
    assert spec.volumes[3].empty_dir is not None
    assert spec.volumes[2].config_map is not None
    assert spec.volumes[2].config_map.default_mode == 0o644
    server = spec.containers[0]
    assert server.ports[0].protocol == "TCP"
    assert (server.termination_message_path, server.termination_message_policy) == ("/dev/termination-log", "File")
    assert server.resources.requests == {"cpu": "100m", "memory": "64Mi"}
    probe = server.liveness_probe
    assert probe is not None
    assert (
        probe.initial_delay_seconds,
        probe.timeout_seconds,
        probe.period_seconds,
        probe.success_threshold,
        probe.failure_threshold,
    ) == (0, 1, 10, 1, 3)
    assert probe.http_get is not None
    assert (probe.http_get.path, probe.http_get.scheme) == ("/", "HTTP")


def test_values_of_a_manifest_are_kept() -> None:
    changes = {
        "spec.dnsPolicy": "Default",
        "spec.restartPolicy": "Never",
        "spec.terminationGracePeriodSeconds": 0,
        "spec.enableServiceLinks": False,
        "spec.volumes[2].configMap.defaultMode": 0,
        "spec.containers[0].ports[0].protocol": "UDP",
        "spec.containers[0].resources.requests": {"cpu": "50m"},
        "spec.containers[0].livenessProbe.timeoutSeconds": 7,
    }

    pod = defaulted(changes)

    spec = pod.spec
    assert (
        spec.dns_policy,
        spec.restart_policy,
        spec.termination_grace_period_seconds,
        spec.enable_service_links,
    ) == ("Default", "Never", 0, False)
    assert spec.volumes[2].config_map is not None
    assert spec.volumes[2].config_map.default_mode == 0
    assert spec.containers[0].ports[0].protocol == "UDP"
    assert spec.containers[0].resources.requests == {"cpu": "50m", "memory": "64Mi"}
    assert spec.containers[0].liveness_probe is not None
    assert spec.containers[0].liveness_probe.timeout_seconds == 7


def test_the_original_is_not_changed() -> None:
    pod = pod_of(sound())

    static_pod(with_defaults(pod), FILE, "node1")

    assert pod == pod_of(sound())


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("", "IfNotPresent"),
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:" + "0" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "0" * 64, "Always"),
    ],
)
def test_the_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    assert policy == defaulted({"spec.containers[0].image": image}).spec.containers[0].image_pull_policy


def test_host_ports_are_the_containers_ports_in_the_hosts_network() -> None:
    pod = defaulted({"spec.hostNetwork": True, "spec.initContainers[0].ports": [{"containerPort": 9}]})

    assert [container.ports[0].host_port for container in (pod.spec.containers[0], pod.spec.init_containers[0])] == [
        80,
        9,
    ]
    assert validate_pod(pod) == []


def test_amounts_are_rounded_up_to_thousandths() -> None:
    pod = defaulted({"spec.containers[0].resources.limits": {"cpu": "0.0001", "memory": 1024}})

    assert pod.spec.containers[0].resources.limits == {"cpu": "1m", "memory": "1024"}


def test_a_static_pod_belongs_to_its_node_and_file() -> None:
    pod = static_pod(with_defaults(pod_of(changed({"metadata.namespace": ""}))), FILE, "Node1")

    metadata = pod.metadata
    assert (metadata.name, metadata.namespace, pod.spec.node_name) == ("web-node1", "default", "Node1")
    assert len(metadata.uid) == 32
    assert int(metadata.uid, 16)
    assert {
        "kubernetes.io/config.hash": metadata.uid,
        "kubernetes.io/config.source": "file",
    } == metadata.annotations
    assert [each.encode() for each in pod.spec.tolerations] == [{"operator": "Exists", "effect": "NoExecute"}]


def test_the_toleration_is_there_once() -> None:
    own = [{"key": "a", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]

    pod = static_pod(defaulted({"spec.tolerations": own}), FILE, "node1")

    assert [own[0], {"operator": "Exists", "effect": "NoExecute"}] == [each.encode() for each in pod.spec.tolerations]


def test_the_name_may_stay() -> None:
    pod = static_pod(defaulted({}), FILE, "node1", suffix=False)

    assert pod.metadata.name == "web"


def test_another_pod_file_or_node_has_another_uid() -> None:
    pod = defaulted({})

    uids = [
        static_pod(pod, FILE, "node1").metadata.uid,
        static_pod(pod, FILE, "node2").metadata.uid,
        static_pod(pod, FILE.with_name("b"), "node1").metadata.uid,
        static_pod(defaulted({"spec.containers[1].image": "busybox:1.37"}), FILE, "node1").metadata.uid,
    ]

    assert len(set(uids)) == 4
    assert uids[0] == static_pod(defaulted({"spec.dnsPolicy": "ClusterFirst"}), FILE, "node1").metadata.uid


def test_a_uid_in_the_manifest_is_kept() -> None:
    pod = static_pod(defaulted({"metadata.uid": "0123"}), FILE, "node1")

    assert (pod.metadata.uid, pod.metadata.annotations["kubernetes.io/config.hash"]) == ("0123", "0123")
