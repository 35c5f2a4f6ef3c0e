"""Pods on the nodes of `cni-harness nodes up`, made in this process: a program for each takes longer than the pod."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_interface
from pathlib import Path

from harness.cli.defaults import select_networks
from harness.cli.options import Settings
from harness.cli.plan import AddOptions, plan_networks
from harness.runtime.cluster import ClusterFiles
from harness.runtime.pod_record import Pod
from tools.scale.prober import Address, End


def add_pods(state_dir: Path, names: Sequence[str], *, jobs: int = 2) -> dict[str, list[Pod]]:
    """Make pods of these names on each node, and return them by node. Raises what `add` raises."""
    layout = ClusterFiles(state_dir).layout()
    nodes = [place.name for place in layout.places()] if layout is not None else []
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(nodes, pool.map(partial(_add, state_dir, names), nodes), strict=True))


def ends(pods: dict[str, list[Pod]], version: int) -> list[End]:
    """Return the first pod of each node, by its address of an IP version."""
    return [
        End(node, first.netns, next(each for each in _addresses(first) if each.version == version))
        for node, (first, *_) in pods.items()
    ]


def _add(state_dir: Path, names: Sequence[str], node_name: str) -> list[Pod]:
    settings = Settings(state_dir=state_dir, node=node_name)
    node = settings.open_node(threads=1)
    plans = plan_networks(select_networks(settings, []), AddOptions())
    runtime = settings.runtime(node, settings.plugin_dirs)
    with node.in_use():
        return [runtime.add("default", name, plans).pod for name in names]


def _addresses(pod: Pod) -> list[Address]:
    return [ip_interface(str(each.address)).ip for network in pod.networks for each in network.decoded().ips]
