"""A sandbox's request to its networks: CNI_ARGS and capability arguments, as containerd's CRI server sends them.

containerd: internal/cri/server/sandbox_run.go (cniNamespaceOpts); several networks: the annotation of the Network
Plumbing Working Group, as multus reads it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from harness.cri.capability_args import capability_args, refused
from harness.cri.messages import PodSandboxConfig
from harness.libcni.networks import NetworkList
from harness.runtime.kubernetes import pod_cni_args
from harness.runtime.pod_plan import NetworkPlan
from harness.runtime.unserved import BANDWIDTH, PORT_MAPPINGS
from skel.names import ifname_flaw

NETWORKS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
LOOPBACK_LIST: Final = b'{"cniVersion": "0.3.1", "name": "cni-loopback", "plugins": [{"type": "loopback"}]}'
"""The list that containerd executes for `lo` before all others."""

_SELECTED: Final = re.compile(r"(?:(?P<namespace>[a-z0-9.-]+)/)?(?P<name>[a-z0-9.-]+)(?:@(?P<ifname>\S+))?")


def network_plans(
    config: PodSandboxConfig, sandbox_id: str, networks: Sequence[NetworkList], loopback: NetworkList
) -> list[NetworkPlan]:
    """Return the networks of a sandbox in the order of ADD: `lo`, the first list as eth0, the annotation's networks.

    Raises RuntimeServiceError, which names the annotation and its value.
    """
    metadata = config.metadata
    cni_args = pod_cni_args(metadata.namespace, metadata.name, sandbox_id, metadata.uid)
    capabilities = capability_args(config)
    plans = [
        NetworkPlan(loopback, "lo", cni_args, capabilities),
        NetworkPlan(networks[0], "eth0", cni_args, capabilities),
    ]
    known = {network.name: network for network in networks}
    # A further network gets neither host ports nor bandwidth: both are the pod's, on its first interface.
    further = {name: value for name, value in capabilities.items() if name not in {PORT_MAPPINGS, BANDWIDTH}}
    for number, wanted in enumerate(_selected(config.annotations.get(NETWORKS_ANNOTATION, "")), start=1):
        network = known.get(wanted.name)
        if network is None:
            raise refused(NETWORKS_ANNOTATION, wanted.name, f"no such network; there are {', '.join(known)}")
        plans.append(NetworkPlan(network, wanted.ifname or f"net{number}", cni_args, further | wanted.capabilities))
    taken = [plan.ifname for plan in plans]
    if twice := {name for name in taken if taken.count(name) > 1}:
        raise refused(NETWORKS_ANNOTATION, ", ".join(sorted(twice)), "an interface name is used twice")
    return plans


class _Selected:
    """A network that the annotation asks for."""

    def __init__(self, name: str, ifname: str, capabilities: Mapping[str, object]) -> None:
        self.name = name
        self.ifname = ifname
        self.capabilities = dict(capabilities)
        if ifname and (flaw := ifname_flaw(ifname)):
            raise refused(NETWORKS_ANNOTATION, ifname, flaw)


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
            raise refused(NETWORKS_ANNOTATION, word, "wanted [namespace/]name[@interface]")
        found.append(_Selected(match["name"], match["ifname"] or "", {}))
    return found


def _json_list(text: str) -> list[object]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise refused(NETWORKS_ANNOTATION, text, f"not JSON: {error}") from None
    if not isinstance(document, list):
        raise refused(NETWORKS_ANNOTATION, text, "wanted a list")
    return document


def _selected_object(each: object, text: str) -> _Selected:
    if not isinstance(each, dict) or not isinstance(each.get("name"), str):
        raise refused(NETWORKS_ANNOTATION, text, "each network is an object with a name")
    capabilities = {name: each[key] for name, key in (("ips", "ips"), ("mac", "mac")) if key in each}
    capabilities |= {name: each[name] for name in (PORT_MAPPINGS, BANDWIDTH) if name in each}
    ifname = each.get("interface", "")
    return _Selected(each["name"], ifname if isinstance(ifname, str) else "", capabilities)
