"""A sandbox's networks and the capability arguments of each."""

import json
from typing import Any

from harness.containerd.sandbox_networks import LOOPBACK_LIST, NETWORKS_ANNOTATION, network_plans
from harness.cri.messages import DNSConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping
from harness.libcni.networks import parse_network_list

_OWN = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]


def _arguments(networks: str) -> dict[str, dict[str, Any]]:
    """The capability arguments of each network of a pod with a host port and a bandwidth, by interface."""
    config = PodSandboxConfig(
        metadata=PodSandboxMetadata(name="web", uid="uid1", namespace="default"),
        port_mappings=[PortMapping(container_port=80, host_port=8080)],
        dns_config=DNSConfig(servers=["192.0.2.53"]),
        annotations={NETWORKS_ANNOTATION: networks, "kubernetes.io/ingress-bandwidth": "1M"},
    )
    lists = [
        parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge"}]}).encode())
        for name in ("net", "other")
    ]
    plans = network_plans(config, lists, parse_network_list(LOOPBACK_LIST))
    return {plan.ifname: dict(plan.capability_args) for plan in plans}


def test_further_network_gets_neither_host_ports_nor_bandwidth_of_the_pod() -> None:
    found = _arguments("other")

    assert found["eth0"]["portMappings"] == _OWN
    assert "bandwidth" in found["eth0"]
    assert not {"portMappings", "bandwidth"} & found["net1"].keys()
    assert found["net1"]["dns"] == found["eth0"]["dns"]


def test_further_network_gets_the_host_ports_of_its_annotation() -> None:
    own = [{"hostPort": 9090, "containerPort": 90, "protocol": "udp"}]

    found = _arguments(json.dumps([{"name": "other", "portMappings": own, "bandwidth": {"egressRate": 2000}}]))

    assert found["net1"]["portMappings"] == own
    assert found["net1"]["bandwidth"] == {"egressRate": 2000}
    assert found["eth0"]["portMappings"] == _OWN
