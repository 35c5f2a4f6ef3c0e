"""The plugins that each container runtime of this machine will execute for a pod, their problems, and advice."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness.install.packages import origins, owners
from harness.install.toml_files import RuntimeCniConfig
from harness.libcni.chain_versions import unspoken_versions
from harness.libcni.networks import NetworkError, NetworkList, load_networks, network_files, read_network_file
from launch.installation import DEFAULT_SOCKET
from launch.launcher import is_ours, launcher_bytes
from skel.versions import SUPPORTED

_TIMEOUT_S = 5.0
"""The time limit for VERSION of a plugin."""
VersionsOf = Callable[[tuple[Path, ...], str], list[str]]
"""A function that asks the plugin of a type, found in folders, for its versions."""


@dataclass(frozen=True)
class UsedPlugin:
    """A plugin that a runtime executes."""

    type: str
    path: Path | None
    origin: str


@dataclass
class ExaminedRuntime:
    """A runtime with its list and plugins."""

    config: RuntimeCniConfig
    network: str = ""
    source: Path | None = None
    """The list's file; None for a built-in list, or if there is no list."""
    plugins: list[UsedPlugin] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def examine(config: RuntimeCniConfig, versions_of: VersionsOf) -> ExaminedRuntime:
    """Find a runtime's list and the origin of its plugins; plugins are only asked for their versions."""
    found = ExaminedRuntime(config)
    if config.problem:
        found.problems.append(config.problem)
    if config.problem or config.unused:
        return found
    network = _list_in_use(config, found.problems)
    types: list[str] = []
    if network is not None:
        found.network, found.source = network.name, network.source
        types = [name for plugin in network.plugins for name in (plugin.type, plugin.delegate) if name]
        found.problems += unspoken_versions(network, lambda name: versions_of(config.bin_dirs, name))
    elif config.built_in and not found.problems:
        found.network, types = config.network, list(config.built_in)
    for type_ in dict.fromkeys([*types, *config.own_types]):
        path = config.plugin(type_)
        found.plugins.append(UsedPlugin(type_, path, origins([path])[path] if path is not None else ""))
        if path is None:
            found.problems.append(f'no plugin "{type_}" in {":".join(map(str, config.bin_dirs))}')
    return found


def outdated(placed: Sequence[Path], others: Iterable[str]) -> list[Path]:
    """Return the launchers that `install` would write anew, in the folders of the files that it has `placed`.

    Some remain from before an upgrade, and the server does not serve them. Others belong to plugins of `others`,
    distributions that were added after `install`. Raises OSError, ValueError.
    """
    content = launcher_bytes()
    old = [path for path in placed if is_ours(str(path)) and path.read_bytes() != content]
    new = [folder / name for folder in sorted({path.parent for path in placed}) for name in others]
    return old + [path for path in new if not path.exists()]


def server_listens(socket: str = DEFAULT_SOCKET) -> bool:
    """Tell whether the server, or systemd in its place, listens at a path in this network namespace."""
    # The kernel is asked: a connection would be one more request to the server.
    lines = [line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()]
    listening = 0x10000  # __SO_ACCEPTCON
    return any(len(line) > 7 and line[7] == socket and int(line[3], 16) & listening for line in lines[1:])  # noqa: PLR2004 -- the path's column


def _list_in_use(config: RuntimeCniConfig, problems: list[str]) -> NetworkList | None:
    """Return the list for pods; `problems` gets the errors that keep the runtime from using a list."""
    try:
        paths = sorted(network_files(config.conf_dir), key=lambda path: path.name)
    except NetworkError as error:
        problems.append(str(error))
        return None
    for path in paths:
        try:
            network = read_network_file(path)
        except NetworkError as error:
            problems.append(str(error))
            if not (config.skips_unusable_lists or config.network):
                break
        else:
            if config.network in {"", network.name}:
                return network
    if not problems and not config.built_in:
        wanted = f'no network "{config.network}"' if config.network else "no network list"
        problems.append(f"{config.conf_dir}: {wanted}")
    return None


def versions_by_asking(timeout: float = _TIMEOUT_S) -> VersionsOf:
    """Return a function that executes VERSION of plugins outside this installation: its own would start the server."""
    from harness.libcni.execute import Executor
    from harness.libcni.operations import plugin_versions

    @cache
    def versions_of(folders: tuple[Path, ...], type_: str) -> list[str]:
        executor = Executor(folders, timeout=timeout)
        return list(SUPPORTED) if is_ours(str(executor.find(type_))) else plugin_versions(executor, type_)

    return versions_of


def advice(config: RuntimeCniConfig, folders: Sequence[Path], names: Iterable[str]) -> str:
    """Return in one line which files a runtime will execute for `names`, and advice if these are not in `folders`.

    The advice names the first of `folders`.
    """
    if config.problem:
        return f"{config.name}: {config.problem}"
    if config.unused:
        return f"{config.name} will not execute CNI plugins: {config.unused}"
    used = {name: config.plugin(name) for name in names}
    elsewhere = {name: path for name, path in used.items() if path is None or not _is_in(path, folders)}
    if not elsewhere:
        return f"{config.name} will execute {_listed(used.values())}"
    found = [path for path in elsewhere.values() if path is not None]
    taken = found[0].parent if found else config.bin_dirs[0]
    packages = sorted(set(owners(found).values()))
    source = config.files[-1] if config.files else "by default"
    whose = f" of the package {', '.join(packages)}" if packages else ""
    instead = f"it will execute {_listed(found)}{whose}" if found else f"it looks into {taken}"
    command = f"cni-harness install --bin-dir {taken}" + (" --divert" if packages else " --force" if found else "")
    return (
        f"{config.name} will not execute {', '.join(elsewhere)} from {folders[0]}: {instead} ({source}). "
        f"Either `{command}`, or set {config.setting_for(folders[0])} and restart {config.name}"
    )


def version_warnings(
    conf_dir: Path, folder: Path, configs: Sequence[RuntimeCniConfig], versions_of: VersionsOf
) -> Iterator[str]:
    """Yield a line for each list of `conf_dir` that offers a version which one of its plugins does not speak."""
    folders = [folder, *(each for config in configs if config.conf_dir == conf_dir for each in config.bin_dirs)]
    try:
        networks = load_networks(conf_dir, on_error=lambda _: None)
    except NetworkError:
        return
    for network in networks:
        for line in unspoken_versions(network, lambda name: versions_of(tuple(dict.fromkeys(folders)), name)):
            yield f"{network.source}: {line}"


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.parent == folder or (folder.is_dir() and path.parent.samefile(folder)) for folder in folders)


def _listed(paths: Iterable[Path | None]) -> str:
    """Return paths in a shell's brace notation: /opt/cni/bin/{bridge,noop}."""
    by_folder: dict[Path, list[str]] = {}
    for path in paths:
        if path is not None:
            by_folder.setdefault(path.parent, []).append(path.name)
    return " and ".join(
        f"{folder}/{{{','.join(names)}}}" if len(names) > 1 else str(folder / names[0])
        for folder, names in by_folder.items()
    )
