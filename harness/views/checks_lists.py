"""Network lists and plugins that a runtime cannot use."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.install.doctor import VersionsOf, examine, outdated
from harness.install.files import installed
from harness.install.runtime_configs import runtime_configs
from harness.libcni.chain_versions import unspoken_versions
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.libcni.networks import NetworkError, NetworkList, network_files, read_network_file
from harness.views.evidence import Commands, Fault


def check_lists(conf_dir: Path, bin_dirs: Sequence[Path], versions_of: VersionsOf) -> Iterator[Fault]:
    """Yield the faults of a folder's lists: unreadable ones, missing plugins, versions that plugins do not support.

    Plugins are only asked for their versions.
    """
    networks = readable_lists(conf_dir, lambda _: None)
    errors: list[NetworkError] = []
    readable_lists(conf_dir, errors.append)
    for error in errors:
        yield Fault("list-unusable", str(conf_dir), (), str(error), "the list is invalid", "correct the file")
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


def check_runtimes(state_dir: Path, versions_of: VersionsOf) -> Iterator[Fault]:
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


def not_ready(commands: Commands, failure: str) -> Fault:
    """Return the fault of a node whose network is not ready, by the kubelet's words: it starts no pod on a network."""
    cause = "the first network list is missing or invalid, or the STATUS of one of its plugins is an error"
    remedy = f"end the error: `{commands.harness('status')}` repeats it"
    return Fault("node-not-ready", "NetworkReady", (), failure, cause, remedy)


def readable_lists(conf_dir: Path, on_error: Callable[[NetworkError], object]) -> list[NetworkList]:
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
