"""All checks of a node, those of its lists and runtimes among them; and the faults that two readings agree on."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.install.doctor import VersionsOf, examine, outdated, versions_by_asking
from harness.install.files import installed
from harness.install.runtime_configs import runtime_configs
from harness.libcni.chain_versions import unspoken_versions
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.libcni.networks import NetworkError, NetworkList, network_files, read_network_file
from harness.runtime.node import Node
from harness.views.checks_between_nodes import check_between_nodes
from harness.views.checks_node import check_leftovers, check_node
from harness.views.checks_pod import check_pods
from harness.views.node_state import Fault, NodeState, read_node_state

_SETTLE_S = 1.0
"""Seconds between two readings. Pods that come or go meanwhile look faulty in one of them only."""


class Scope(NamedTuple):
    """The node to examine, and the folders that belong to it."""

    node: Node
    bin_dirs: Sequence[Path]
    """Folders of plugins."""
    conf_dir: Path | None
    """The folder of network lists; None if none is configured."""
    cache_dirs: Sequence[Path] = ()
    """Runtimes' caches of results; by default the node's /var/lib/cni."""
    state_dir: Path | None = None
    """The folder of `install`, for this host's runtimes; None for a node that is not this host."""
    network_error: Callable[[], str | None] = lambda: None
    """Returns why the kubelet says that the node's network is not ready; None if it is."""


def diagnose(
    scope: Scope, *, warn: Callable[[str], object], pause: Callable[[float], object] = time.sleep
) -> tuple[list[Fault], NodeState]:
    """Return the faults of a node, and the state that shows them. It changes nothing.

    Faults are looked for again after a second, and only faults that are still there count. `warn` gets a line for each
    source that cannot be read. Raises SnapshotError, NetlinkError, OSError.
    """
    versions_of = versions_by_asking()
    faults, state = _examine(scope, versions_of, warn)
    if faults:
        pause(_SETTLE_S)
        again, state = _examine(scope, versions_of, lambda _: None)
        there = {(fault.check, fault.subject, fault.pods) for fault in again}
        faults = [fault for fault in faults if (fault.check, fault.subject, fault.pods) in there]
    return list(dict.fromkeys(faults)), state


def _examine(scope: Scope, versions_of: VersionsOf, warn: Callable[[str], object]) -> tuple[list[Fault], NodeState]:
    state = read_node_state(scope.node, cache_dirs=scope.cache_dirs, warn=warn)
    errors: list[NetworkError] = []
    networks = _readable_lists(scope.conf_dir, errors.append) if scope.conf_dir is not None else []
    faults = [*check_pods(state), *check_node(state), *check_leftovers(state, scope.node, networks)]
    faults += check_between_nodes(state, tuple(faults))
    cause, remedy = "the list is invalid", "correct the file"
    faults += (Fault("list-unusable", str(scope.conf_dir), (), str(error), cause, remedy) for error in errors)
    faults += _check_lists(networks, scope.bin_dirs, versions_of)
    if (failure := scope.network_error()) is not None:
        # By the kubelet's words: it starts no pod on a network.
        cause = "the first network list is missing or invalid, or the STATUS of one of its plugins is an error"
        remedy = f"end the error: `{state.commands.program} status` repeats it"
        faults.append(Fault("node-not-ready", "NetworkReady", (), failure, cause, remedy))
    if scope.state_dir is not None:
        faults += _check_runtimes(scope.state_dir, versions_of)
    return faults, state


def _check_lists(networks: Sequence[NetworkList], bin_dirs: Sequence[Path], versions_of: VersionsOf) -> Iterator[Fault]:
    """Yield the faults of lists: missing plugins, and versions that plugins do not support.

    Plugins are only asked for their versions.
    """
    executor = Executor(bin_dirs)
    folders = ":".join(map(str, bin_dirs))
    for network in networks:
        source = str(network.source or network.name)
        types = {name for plugin in network.plugins for name in (plugin.type, plugin.delegate) if name}
        missing = sorted(name for name in types if not _is_there(executor, name))
        for name in missing:
            what = f"{source}: plugin {name} is not in {folders}"
            remedy = f"install {name}, or name its folder by --bin-dir"
            yield Fault("list-unusable", source, (), what, "it is missing or not executable", remedy)
        if not missing:
            for flaw in unspoken_versions(network, lambda name: versions_of(tuple(bin_dirs), name)):
                yield Fault("list-unusable", source, (), f"{source}: {flaw}", "versions differ", "change cniVersion")


def _check_runtimes(state_dir: Path, versions_of: VersionsOf) -> Iterator[Fault]:
    """Yield the faults of the runtimes of this machine, and of the launchers that `install` wrote."""
    from launch.distributions import declared
    from launch.installation import plugin_names

    for config in runtime_configs():
        for problem in examine(config, versions_of).problems:
            remedy = "cni-harness doctor shows its configuration"
            yield Fault("runtime-unusable", config.name, (), f"{config.name}: {problem}", "see there", remedy)
    placed = [path for path in installed(state_dir) if path.name in plugin_names()]
    for path in outdated(placed, declared().plugins):
        what = f"{path} is of another release than this program"
        cause = "an upgrade without `install`: the server does not serve it"
        yield Fault("server-old", str(path), (), what, cause, "cni-harness install")


def _readable_lists(conf_dir: Path, on_error: Callable[[NetworkError], object]) -> list[NetworkList]:
    """Return the lists of a folder; `on_error` gets the errors of the others."""
    found = []
    try:
        paths = network_files(conf_dir)
    except NetworkError as error:
        on_error(error)
        return []
    for path in paths:
        try:
            found.append(read_network_file(path))
        except NetworkError as error:
            on_error(error)
    return found


def _is_there(executor: Executor, type_: str) -> bool:
    try:
        executor.find(type_)
    except PluginNotFoundError:
        return False
    return True
