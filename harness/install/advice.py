"""Whether the runtimes of this machine will execute the plugins of a folder, and advice if not."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.install.doctor import VersionsOf
from harness.install.packages import owners
from harness.install.runtime_configs import RuntimeConfig
from harness.libcni.chain_versions import unspoken_versions
from harness.libcni.networks import NetworkError, load_networks


def advice(config: RuntimeConfig, folders: Sequence[Path], names: Iterable[str]) -> str:
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
    conf_dir: Path, folder: Path, configs: Sequence[RuntimeConfig], versions_of: VersionsOf
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
