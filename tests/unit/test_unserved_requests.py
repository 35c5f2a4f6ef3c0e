"""Host ports and bandwidth limits that no plugin of a pod's network lists takes."""

import json
from typing import Any

import pytest

from harness.cri.capability_args import capability_args
from harness.cri.messages import PodSandboxConfig, PodSandboxMetadata, PortMapping
from harness.cri.remote.wire import networks
from harness.libcni.networks import load_networks
from harness.runtime.pod_record import PodNetwork
from harness.runtime.unserved_requests import unserved_requests
from tests.cli import ROOT

PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}


def network(name: str, *plugins: dict[str, Any], ifname: str = "eth0", **arguments: Any) -> PodNetwork:
    """A network with the plugin bridge and these, and the arguments of its ADD."""
    config = {"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge"}, *plugins]}
    return PodNetwork(name=name, ifname=ifname, config=json.dumps(config), capability_args=dict(arguments))


def sentences(*asked: PodNetwork) -> list[str]:
    return [request.in_words() for request in unserved_requests(asked)]


def test_host_port_without_the_capability_is_named_with_network_and_capability() -> None:
    said = "host port 8080/tcp has no effect: no plugin of network net has the capability portMappings"

    assert sentences(network("net", portMappings=PORTS)) == [said]


def test_several_host_ports_are_one_sentence() -> None:
    more = [*PORTS, {"HostPort": 53, "ContainerPort": 53, "Protocol": "UDP"}]

    [said] = sentences(network("net", portMappings=more))

    assert said.startswith("host port 8080/tcp, host port 53/udp have no effect: ")


@pytest.mark.parametrize("declared", [{"portMappings": False}, {"portmappings": True}, {}])
def test_portmap_that_does_not_declare_the_capability_serves_none(declared: dict[str, bool]) -> None:
    assert len(sentences(network("net", {"type": "portmap", "capabilities": declared}, portMappings=PORTS))) == 1


def test_list_with_the_capability_serves_host_ports() -> None:
    assert sentences(network("net", PORTMAP, portMappings=PORTS)) == []


@pytest.mark.parametrize("argument", [[], None, "8080", [{"containerPort": 80}], [{"hostPort": 0}], [5]])
def test_argument_without_a_host_port_asks_for_nothing(argument: object) -> None:
    assert sentences(network("net", portMappings=argument)) == []


def test_loopback_needs_no_capability() -> None:
    assert sentences(network("cni-loopback", ifname="lo", portMappings=PORTS)) == []


def test_capability_of_another_list_serves_no_other_ports() -> None:
    own = [{"hostPort": 9090, "containerPort": 90, "protocol": "tcp"}]

    [said] = sentences(
        network("first", PORTMAP, portMappings=PORTS), network("second", ifname="net1", portMappings=own)
    )

    assert said == "host port 9090/tcp has no effect: no plugin of network second has the capability portMappings"


def test_one_of_two_lists_with_the_same_ports_is_enough() -> None:
    lists = [network("first", portMappings=PORTS), network("second", PORTMAP, ifname="eth1", portMappings=PORTS)]

    assert sentences(*lists) == []


def test_unreadable_list_is_left_out() -> None:
    assert sentences(PodNetwork(name="net", ifname="eth0", config="{", capability_args={"portMappings": PORTS})) == []


def pod(**annotations: str) -> PodSandboxConfig:
    """A request of a pod with a host port and a limit for each direction that is named."""
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(name="web", uid="uid1", namespace="default"),
        port_mappings=[PortMapping(protocol="TCP", container_port=80, host_port=8080)],
        annotations={f"kubernetes.io/{name}-bandwidth": rate for name, rate in annotations.items()},
    )


def test_bandwidth_annotation_is_named_with_its_value() -> None:
    arguments: dict[str, Any] = capability_args(pod(ingress="10M", egress="1k"))

    [said] = sentences(network("net", PORTMAP, **arguments))

    assert said == (
        "annotation kubernetes.io/ingress-bandwidth=10M, annotation kubernetes.io/egress-bandwidth=1k have no effect: "
        "no plugin of network net has the capability bandwidth"
    )


def test_bandwidth_of_another_source_is_not_called_an_annotation() -> None:
    arguments: dict[str, Any] = capability_args(pod(ingress="10M")) | {
        "bandwidth": {"ingressRate": 2000},
        "portMappings": [],
    }

    [said] = sentences(network("net", **arguments))

    assert said.startswith("ingress limit of 2000 bit/s has no effect: ")


def test_lists_of_containerds_status_are_compared() -> None:
    """`cniconfig`, as containerd 1.6 and 2 write it."""
    source = network("theirs").config
    told = {"cniconfig": json.dumps({"Networks": [{"Config": {"Name": "theirs", "Source": source}, "IFName": "eth0"}]})}

    [request] = unserved_requests(networks(told, capability_args(pod())))

    assert request.in_words() == (
        "host port 8080/tcp has no effect: no plugin of network theirs has the capability portMappings"
    )


@pytest.mark.parametrize("told", [{}, {"cniconfig": "{"}, {"cniconfig": "[]"}, {"cniconfig": '{"Networks": null}'}])
def test_runtime_without_lists_in_its_status_tells_no_network(told: dict[str, str]) -> None:
    assert networks(told, capability_args(pod())) == []


def test_readme_runs_its_pod_with_a_host_port_in_a_list_with_the_capability() -> None:
    [line] = [line for line in (ROOT / "README.md").read_text().splitlines() if " run -f " in line]
    words = line.split()
    manifest = (ROOT / words[words.index("-f") + 1]).read_text()
    [first, *_] = load_networks(ROOT / words[words.index("--conf-dir") + 1])

    assert "hostPort: 8080" in manifest
    assert (
        sentences(
            PodNetwork(
                name=first.name, ifname="eth0", config=first.raw.decode(), capability_args={"portMappings": PORTS}
            )
        )
        == []
    )
