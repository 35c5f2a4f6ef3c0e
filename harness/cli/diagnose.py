"""`cni-harness diagnose`: the faults of a node's networks, with cause and remedy."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, cache_dir_option, complete_pod, namespace_option, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.runtime.node import Node
    from harness.views.diagnosis import Scope


@verb(
    "diagnose",
    examples={
        "diagnose": "Find the faults of all networks",
        "diagnose pod1": "Find those of one pod",
    },
    root="looks into network namespaces",
)
@click.argument("pod", required=False, shell_complete=complete_pod)
@cache_dir_option
@namespace_option
def command(settings: Settings, *, pod: str | None, cache_dirs: tuple[Path, ...], namespace: str) -> int:
    """Find the faults of the node's networks, or of one pod's: each with its cause and its remedy.

    Pods of all runtimes are examined, as far as a cache has their results: links, addresses and routes against the
    result, gateways, forwarding, firewall rules, MTUs. Then leftovers of unknown containers, reserved addresses,
    lists that a runtime cannot use, and the kubelet's reason if the node is not ready. It changes nothing. The exit
    code is 1 if there is a fault.
    """
    from harness.views.diagnosis import diagnose

    node = settings.existing_node()
    faults, state = diagnose(_scope(settings, node, cache_dirs), warn=say)
    if pod is not None:
        title = f"{namespace}/{pod}"
        if all(each.pod != title for each in state.known):
            raise click.ClickException(f"there is no pod {title}")
        faults = [fault for fault in faults if title in fault.pods or not fault.pods]
    document = {"faults": [{**fault._asdict(), "pods": list(fault.pods)} for fault in faults]}
    rows = [[fault.check, fault.what, fault.cause, fault.remedy] for fault in faults]
    settings.emit(document, TextTable(("CHECK", "FAULT", "CAUSE", "REMEDY"), rows))
    if not faults and settings.is_table:
        say(f"No fault found: {len(state.known)} attachments examined")
    return 1 if faults else 0


def _scope(settings: Settings, node: "Node", cache_dirs: tuple[Path, ...]) -> "Scope":
    from harness.libcni.networks import network_files
    from harness.views.diagnosis import Scope

    usual = settings.usual_conf_dir
    conf_dir = settings.conf_dir or (usual if network_files(usual) else None)
    # A named node has a namespace of its own, but the runtimes are this host's.
    state_dir = settings.state_dir if node.netns is None else None
    bin_dirs = [*dict.fromkeys([*settings.usual_bin_dirs(node, lambda _: None), settings.state_dir / "bin"])]
    network_error = partial(_network_error, settings, node, conf_dir, bin_dirs)
    return Scope(node, bin_dirs, conf_dir, cache_dirs, state_dir, network_error)


def _network_error(settings: Settings, node: "Node", conf_dir: Path | None, bin_dirs: list[Path]) -> str | None:
    """Ask the runtime of the node's pods, as the kubelet does, why pods cannot get a network; None if they can.

    Without a network list, this program's own runtime has this project's lists, and is ready.
    """
    from harness.cli.kubelet_node import DEFAULT_TIMEOUT_S, choose_endpoint, open_runtime
    from harness.containerd.sandbox_networks import SandboxNetworks
    from harness.cri.messages import RuntimeStatus
    from harness.cri.service import RuntimeServiceError
    from harness.kubelet.status.start_errors import network_error

    if choose_endpoint(node.folder, ""):
        try:
            with open_runtime(settings) as service:
                return network_error(service.status())
        except RuntimeServiceError as error:
            return str(error)
    if conf_dir is None:
        return None
    one_thread = partial(settings.open_node, threads=1)
    networks = SandboxNetworks(one_thread, conf_dir, bin_dirs, timeout=DEFAULT_TIMEOUT_S, warn=say)
    return network_error(RuntimeStatus(conditions=[networks.condition()]))
