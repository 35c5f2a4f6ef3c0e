"""A kubelet, put together for one node and one runtime."""

import os
import platform
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from harness.containerd.service import RUNTIME_NAME
from harness.cri.service import ImageNotFoundError, ImageService, NotFoundError, RuntimeService, RuntimeServiceError
from harness.cri.traced import wrapped_service
from harness.kubelet.admission import NodeFacts
from harness.kubelet.events import EventRecorder
from harness.kubelet.garbage import GarbageCollector
from harness.kubelet.kubelet import Kubelet, KubeletParts
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.probes.handlers import OnNode
from harness.kubelet.probes.manager import ProbeManager
from harness.kubelet.probes.results import ProbeResults, Probes
from harness.kubelet.requests.cgroups import PodCgroups, memory_of_node
from harness.kubelet.requests.environment import EnvironmentSources
from harness.kubelet.status.start_errors import ReasonCache
from harness.kubelet.sync.backoff import Backoff
from harness.kubelet.sync.container_images import ContainerImages
from harness.kubelet.sync.container_kill import ContainerKiller
from harness.kubelet.sync.container_start import ContainerStarter
from harness.kubelet.sync.kuberuntime import KubeRuntime
from harness.kubelet.sync.pleg import Pleg
from harness.kubelet.sync.pod_sync import PodSync
from harness.kubelet.volumes.manager import VolumeManager
from harness.runtime.namespace_state import read_namespace_state
from harness.runtime.node import Node
from harness.runtime.node_snapshot import THIS_HOST

S = TypeVar("S")
T = TypeVar("T")

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names that Go has for uname(2)'s."""
_RPC_ERROR: Final = "rpc error: "


class Assembled(NamedTuple):
    """A kubelet and those of its parts that the command line uses."""

    kubelet: Kubelet
    records: PodRecords
    events: EventRecorder
    paths: KubeletPaths
    probe_manager: ProbeManager

    def close(self) -> None:
        """End all threads; the pods stay as they are."""
        self.kubelet.close()
        self.probe_manager.close()


def assemble(
    name: str,
    folder: Path,
    open_node: Callable[[], Node],
    service: RuntimeService,
    images: ImageService,
    *,
    say: Callable[[str], None],
) -> Assembled:
    """Put a kubelet together for the node of this Kubernetes name, folder and opener; nothing is started.

    Raises OSError, RuntimeServiceError.
    """
    service, images = with_rpc_errors(service), with_rpc_errors(images)
    paths = KubeletPaths(folder)
    records = PodRecords(paths)
    events = EventRecorder(paths.pods)
    probes = Probes(ProbeResults(), ProbeResults(), ProbeResults())
    on_node = _on_node(open_node)
    node_memory = memory_of_node()
    host_ip = _host_ip(open_node())
    capacity = {"cpu": Fraction(os.cpu_count() or 1), "memory": Fraction(node_memory)}
    sources = EnvironmentSources((), host_ip, capacity, records.config_maps)
    killer = ContainerKiller(service, events=events, on_node=on_node)
    pulled = ContainerImages(images, Backoff())
    starter = ContainerStarter(service, pulled, killer, paths, events, on_node, sources)
    runtime = KubeRuntime(service, starter, killer, backoff=Backoff(), events=events, paths=paths, probes=probes)
    pleg = Pleg(service)
    runtime_name = service.version().runtime_name
    probe_manager = ProbeManager(service, records=records, events=events, probes=probes, on_node=on_node)
    functions = PodSync(
        service=service,
        runtime=runtime,
        records=records,
        events=events,
        volumes=VolumeManager(paths, records.config_maps),
        cgroups=PodCgroups(say),
        probe_workers=probe_manager,
        probes=probes,
        reasons=ReasonCache(),
        relist=pleg.relist_now,
        runtime_name=runtime_name,
        host_ip=host_ip,
    )
    kubelet = Kubelet(
        KubeletParts(
            service=service,
            functions=functions,
            records=records,
            events=events,
            pleg=pleg,
            garbage=GarbageCollector(service, paths, warn=say),
            probes=probes,
            node=_node_facts(name, node_memory),
            say=say,
            owns_runtime=runtime_name == RUNTIME_NAME,
        )
    )
    return Assembled(kubelet, records, events, paths, probe_manager)


def _on_node(open_node: Callable[[], Node]) -> OnNode:
    def call(function: Callable[[], T]) -> T:
        node = open_node()
        with node.in_use():
            return node.run(function)

    return call


def _node_facts(name: str, memory: int) -> NodeFacts:
    machine = platform.machine()
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }
    return NodeFacts(name, labels, {"cpu": (os.cpu_count() or 1) * 1000, "memory": memory})


def _host_ip(node: Node) -> str:
    """Return the node's first address, IPv4 before IPv6, that is neither loopback nor link-local; empty for none."""
    with node.in_use():
        state = read_namespace_state(node.netns or THIS_HOST)
    addresses = [each.ip for listed in state.addresses.values() for each in listed] if state is not None else []
    usable = [each for each in addresses if not each.is_loopback and not each.is_link_local]
    return str(min(usable, key=lambda each: each.version)) if usable else ""


def with_rpc_errors(service: S) -> S:
    """Return a service that does as `service`; the texts of its errors begin with `rpc error: code = ...`."""
    return wrapped_service(service, _with_rpc_errors)


def _with_rpc_errors(_: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: object, **named: object) -> object:
        try:
            return function(*arguments, **named)
        except RuntimeServiceError as error:
            if str(error).startswith(_RPC_ERROR):
                raise
            for kind in (NotFoundError, ImageNotFoundError):
                if isinstance(error, kind):
                    raise kind(f"{_RPC_ERROR}code = NotFound desc = {error}") from error
            raise RuntimeServiceError(f"{_RPC_ERROR}code = Unknown desc = {error}") from error

    return call
