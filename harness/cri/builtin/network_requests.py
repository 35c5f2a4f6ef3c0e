"""A sandbox's request to its networks: CNI_ARGS and capability arguments, as containerd's CRI server sends them.

containerd: internal/cri/server/sandbox_run.go (cniNamespaceOpts); several networks: the annotation of the Network
Plumbing Working Group, as multus reads it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from harness.cri.messages import PodSandboxConfig
from harness.cri.service import RuntimeServiceError
from harness.libcni.networks import NetworkList
from harness.quantity import QuantityError, quantity_value
from harness.runtime.kubernetes import pod_cni_args
from harness.runtime.pod_plan import NetworkPlan
from skel.names import ifname_flaw

__all__ = ["LOOPBACK_LIST", "NETWORKS_ANNOTATION", "network_plans"]

NETWORKS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
LOOPBACK_LIST: Final = b'{"cniVersion": "0.3.1", "name": "cni-loopback", "plugins": [{"type": "loopback"}]}'
"""The list that containerd executes for `lo` before all others."""

_INGRESS: Final = "kubernetes.io/ingress-bandwidth"
_EGRESS: Final = "kubernetes.io/egress-bandwidth"
_LEAST_RATE: Final = 1_000
_GREATEST_RATE: Final = 10**15
_ANY_BURST: Final = 2**32 - 1
_SELECTED: Final = re.compile(r"(?:(?P<namespace>[a-z0-9.-]+)/)?(?P<name>[a-z0-9.-]+)(?:@(?P<ifname>\S+))?")


def network_plans(
    config: PodSandboxConfig, sandbox_id: str, networks: Sequence[NetworkList], loopback: NetworkList
) -> list[NetworkPlan]:
    """Return the networks of a sandbox in the order of ADD: `lo`, the first list as eth0, the annotation's networks.

    Raises RuntimeServiceError, which names the annotation and its value.
    """
    metadata = config.metadata
    cni_args = pod_cni_args(metadata.namespace, metadata.name, sandbox_id, metadata.uid)
    capabilities = _capability_args(config)
    plans = [
        NetworkPlan(loopback, "lo", cni_args, capabilities),
        NetworkPlan(networks[0], "eth0", cni_args, capabilities),
    ]
    known = {network.name: network for network in networks}
    # A further network gets neither host ports nor bandwidth: both are the pod's, on its first interface.
    further = {name: value for name, value in capabilities.items() if name not in {"portMappings", "bandwidth"}}
    for number, wanted in enumerate(_selected(config.annotations.get(NETWORKS_ANNOTATION, "")), start=1):
        network = known.get(wanted.name)
        if network is None:
            raise _refused(NETWORKS_ANNOTATION, wanted.name, f"no such network; there are {', '.join(known)}")
        plans.append(NetworkPlan(network, wanted.ifname or f"net{number}", cni_args, further | wanted.capabilities))
    taken = [plan.ifname for plan in plans]
    if twice := {name for name in taken if taken.count(name) > 1}:
        raise _refused(NETWORKS_ANNOTATION, ", ".join(sorted(twice)), "an interface name is used twice")
    return plans


def _capability_args(config: PodSandboxConfig) -> dict[str, object]:
    """Return the arguments of all capabilities; libcni gives a plugin those that it declares."""
    arguments: dict[str, object] = {"io.kubernetes.cri.pod-annotations": dict(config.annotations)}
    mapped = [each for each in config.port_mappings if each.host_port > 0]
    if mapped:
        arguments["portMappings"] = [
            {
                "hostPort": each.host_port,
                "containerPort": each.container_port,
                "protocol": each.protocol.lower(),
                "hostIP": each.host_ip,
            }
            for each in mapped
        ]
    if bandwidth := _bandwidth(config.annotations):
        arguments["bandwidth"] = bandwidth
    if config.dns_config is not None:
        dns = config.dns_config
        arguments["dns"] = {"servers": dns.servers, "searches": dns.searches, "options": dns.options}
    if config.cgroup_parent:
        arguments["cgroupPath"] = config.cgroup_parent
    return arguments


def _bandwidth(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the argument of the capability `bandwidth`: rates in bits per second."""
    limits = {}
    for direction, annotation in (("ingress", _INGRESS), ("egress", _EGRESS)):
        if annotation in annotations:
            limits[f"{direction}Rate"] = _rate(annotation, annotations[annotation])
            limits[f"{direction}Burst"] = _ANY_BURST
    return limits


def _rate(annotation: str, text: str) -> int:
    try:
        rate = quantity_value(text)
    except QuantityError as error:
        raise _refused(annotation, text, str(error)) from None
    if rate < _LEAST_RATE:
        raise _refused(annotation, text, "resource is unreasonably small (< 1kbit)")
    if rate > _GREATEST_RATE:
        raise _refused(annotation, text, "resource is unreasonably large (> 1Pbit)")
    return rate


class _Selected:
    """A network that the annotation asks for."""

    def __init__(self, name: str, ifname: str, capabilities: Mapping[str, object]) -> None:
        self.name = name
        self.ifname = ifname
        self.capabilities = dict(capabilities)
        if ifname and (flaw := ifname_flaw(ifname)):
            raise _refused(NETWORKS_ANNOTATION, ifname, flaw)


def _selected(text: str) -> list[_Selected]:
    """Read the annotation: names with commas between them (`ns/name@ifname`), or a JSON list of objects."""
    if not text.strip():
        return []
    if text.lstrip().startswith("["):
        return [_selected_object(each, text) for each in _json_list(text)]
    found = []
    for word in text.split(","):
        match = _SELECTED.fullmatch(word.strip())
        if match is None:
            raise _refused(NETWORKS_ANNOTATION, word, "wanted [namespace/]name[@interface]")
        found.append(_Selected(match["name"], match["ifname"] or "", {}))
    return found


def _json_list(text: str) -> list[object]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _refused(NETWORKS_ANNOTATION, text, f"not JSON: {error}") from None
    if not isinstance(document, list):
        raise _refused(NETWORKS_ANNOTATION, text, "wanted a list")
    return document


def _selected_object(each: object, text: str) -> _Selected:
    if not isinstance(each, dict) or not isinstance(each.get("name"), str):
        raise _refused(NETWORKS_ANNOTATION, text, "each network is an object with a name")
    capabilities = {name: each[key] for name, key in (("ips", "ips"), ("mac", "mac")) if key in each}
    if "portMappings" in each:
        capabilities["portMappings"] = each["portMappings"]
    if "bandwidth" in each:
        capabilities["bandwidth"] = each["bandwidth"]
    ifname = each.get("interface", "")
    return _Selected(each["name"], ifname if isinstance(ifname, str) else "", capabilities)


def _refused(annotation: str, value: str, reason: str) -> RuntimeServiceError:
    return RuntimeServiceError(f'annotation {annotation}: "{value}": {reason}')
