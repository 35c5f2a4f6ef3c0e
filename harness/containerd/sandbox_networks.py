"""The networks of sandboxes: which, with which arguments, and the errors, as in containerd's CRI server.

CNI_ARGS and capability arguments are those of containerd (internal/cri/server/sandbox_run.go, cniNamespaceOpts). For
several networks, a sandbox has the annotation of the Network Plumbing Working Group, as multus reads it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

from harness.containerd.sandbox_record import SandboxPod
from harness.cri.capability_args import capability_args, refused
from harness.cri.messages import NETWORK_READY, PodSandboxConfig, RuntimeCondition
from harness.cri.service import RuntimeServiceError
from harness.libcni.execute import Execution
from harness.libcni.networks import (
    NetworkError,
    NetworkList,
    load_networks,
    network_files,
    parse_network_list,
    read_network_file,
)
from harness.output import message_of
from harness.runtime.node import Node
from harness.runtime.pod_networks import EXPECTED, NetworkPlan, PodNetworks
from harness.runtime.unserved_requests import BANDWIDTH, PORT_MAPPINGS
from skel.environment import ifname_flaw

NETWORKS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
LOOPBACK_LIST: Final = b'{"cniVersion": "0.3.1", "name": "cni-loopback", "plugins": [{"type": "loopback"}]}'
"""The list that containerd executes for `lo` before all others."""

_SELECTED: Final = re.compile(r"(?:(?P<namespace>[a-z0-9.-]+)/)?(?P<name>[a-z0-9.-]+)(?:@(?P<ifname>\S+))?")


@dataclass
class SandboxNetworks:
    """The lists of `conf_dir` and the plugins of `bin_dirs`, for the node that `open_node` returns.

    `timeout` limits one plugin, in seconds. Safe to share between threads.
    Each operation uses the node for itself, so that GC waits for operations only.
    """

    open_node: Callable[[], Node]
    conf_dir: Path
    bin_dirs: Sequence[Path]
    _: KW_ONLY
    timeout: float = 60.0
    observe: Callable[[Execution], None] | None = None
    warn: Callable[[str], None]

    def condition(self) -> RuntimeCondition:
        """Return the condition NetworkReady; its words are containerd's."""
        node = self.open_node()
        try:
            first = self._networks()[0]
            with node.in_use():
                self._on(node).libcni().status(first)
        except EXPECTED as error:
            message = f"Network plugin returns error: {message_of(error)}"
            return RuntimeCondition(type=NETWORK_READY, status=False, reason="NetworkPluginNotReady", message=message)
        return RuntimeCondition(type=NETWORK_READY, status=True)

    def plan(self, sandbox: SandboxPod) -> list[NetworkList]:
        """Put the networks that a sandbox gets on its record, and return their lists. Raises RuntimeServiceError."""
        identifier = sandbox.container_id
        try:
            plans = network_plans(sandbox.part().config, self._networks(), parse_network_list(LOOPBACK_LIST))
            for plan in plans:
                plan.network.require_name()
        except NetworkError as error:
            raise RuntimeServiceError(f'failed to setup network for sandbox "{identifier}": {error}') from error
        sandbox.networks = [plan.to_network() for plan in plans]
        return [plan.network for plan in plans]

    def setup(self, node: Node, sandbox: SandboxPod, lists: Sequence[NetworkList]) -> None:
        """ADD each network in its order; the results and the addresses of eth0 go into the record.

        Raises RuntimeServiceError. Networks that were added stay: `teardown` deletes them.
        """
        failed = f'failed to setup network for sandbox "{sandbox.container_id}"'
        try:
            self._on(node).setup(sandbox, lists)
        except EXPECTED as error:
            raise RuntimeServiceError(f"{failed}: {message_of(error)}") from error
        found = [ip.address.ip for each in sandbox.networks if each.ifname == "eth0" for ip in each.decoded().ips]
        # IPv4 first, as containerd's selectPodIPs.
        sandbox.part().ips = [str(address) for address in sorted(found, key=lambda address: address.version)]
        if not found:
            raise RuntimeServiceError(f'failed to find network info for sandbox "{sandbox.container_id}"')

    def teardown(self, node: Node, sandbox: SandboxPod, *, only_added: bool = False) -> None:
        """DEL each network in reverse order, past failures. Raises RuntimeServiceError, which has them all.

        With `only_added`, networks without a result are left out: libcni has undone the ADD that failed.
        """
        with node.in_use():
            failed = self._on(node).teardown(sandbox, only_added=only_added)
        if failed:
            words = "; ".join(text for _, text in reversed(failed))
            raise RuntimeServiceError(f'failed to destroy network for sandbox "{sandbox.container_id}": {words}')

    def _networks(self) -> list[NetworkList]:
        """Return the lists. As in containerd, which reads one, the first must be sound. Raises NetworkError."""
        files = sorted(network_files(self.conf_dir), key=lambda path: path.name)
        if not files:
            raise NetworkError(f"no network config found in {self.conf_dir}: cni plugin not initialized")
        read_network_file(files[0])
        return load_networks(self.conf_dir, on_error=lambda _: None)

    def _on(self, node: Node) -> PodNetworks:
        return PodNetworks(node, self.bin_dirs, timeout=self.timeout, observe=self.observe, warn=self.warn)


def network_plans(
    config: PodSandboxConfig, networks: Sequence[NetworkList], loopback: NetworkList
) -> list[NetworkPlan]:
    """Return the networks of a sandbox in the order of ADD: `lo`, the first list as eth0, the annotation's networks.

    Raises RuntimeServiceError, which names the annotation and its value.
    """
    capabilities = capability_args(config)
    plans = [
        NetworkPlan(loopback, "lo", {}, capabilities),
        NetworkPlan(networks[0], "eth0", {}, capabilities),
    ]
    known = {network.name: network for network in networks}
    # A further network gets neither host ports nor bandwidth: both are the pod's, on its first interface.
    further = {name: value for name, value in capabilities.items() if name not in {PORT_MAPPINGS, BANDWIDTH}}
    for number, wanted in enumerate(_selected(config.annotations.get(NETWORKS_ANNOTATION, "")), start=1):
        network = known.get(wanted.name)
        if network is None:
            raise refused(NETWORKS_ANNOTATION, wanted.name, f"no such network; there are {', '.join(known)}")
        plans.append(NetworkPlan(network, wanted.ifname or f"net{number}", {}, further | wanted.capabilities))
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
    capabilities = {name: each[name] for name in ("ips", "mac", PORT_MAPPINGS, BANDWIDTH) if name in each}
    ifname = each.get("interface", "")
    return _Selected(each["name"], ifname if isinstance(ifname, str) else "", capabilities)
