"""The defaults without a configuration: this project's own network lists and plugins."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.cli.options import Settings, warn
from harness.install.files import write_launchers
from harness.libcni.networks import NetworkError, NetworkList, load_networks, network_files
from harness.locations import OWN_CONF_DIR
from harness.output import say
from launch.installation import plugin_names


def network_folder(settings: Settings) -> Path:
    """Return the folder that network lists are read from.

    It is the project's own folder if no folder was named and the usual folder has no list. Raises NetworkError if the
    named folder is missing, or has no list.
    """
    if settings.conf_dir is not None:
        if not network_files(settings.conf_dir):
            lacking = "no network lists" if settings.conf_dir.is_dir() else "no such folder"
            raise NetworkError(f"{settings.conf_dir}: {lacking} (--conf-dir, or NETCONFPATH in the environment)")
        return settings.conf_dir
    usual = settings.usual_conf_dir
    if network_files(usual):
        return usual
    _announce(settings, f"No network lists in {usual}: using this project's own, {OWN_CONF_DIR}")
    return OWN_CONF_DIR


def configured_networks(settings: Settings, *, on_error: Callable[[NetworkError], None] = warn) -> list[NetworkList]:
    """Return every network list, by file name; `on_error` gets the errors of single files. Raises NetworkError."""
    return load_networks(network_folder(settings), on_error=on_error)


def select_networks(settings: Settings, names: Sequence[str]) -> list[NetworkList]:
    """Return the networks of these names, in this order; without names the first list, as containerd does.

    If the folder of lists lacks a name, it may name a network of this project. Raises NetworkError, which names the
    available networks.
    """
    networks = configured_networks(settings)
    if not names and not networks:
        raise NetworkError(f"{settings.conf_dir or settings.usual_conf_dir}: no network list that can be used")
    if not names:
        return networks[:1]
    known = {network.name: network for network in networks}
    own = {network.name: network for network in load_networks(OWN_CONF_DIR)}
    if missing := [name for name in names if name not in known and name not in own]:
        there = [f"there are: {', '.join(known)}"] if known else []
        if others := [name for name in own if name not in known]:
            there.append(f"of this project: {', '.join(others)}")
        from difflib import get_close_matches

        if close := [match for name in missing for match in get_close_matches(name, [*known, *own], 1)]:
            there.append(f"did you mean {', '.join(close)}?")
        raise NetworkError(f"no network named {', '.join(missing)} ({'; '.join(there)})")
    for name in dict.fromkeys(names):
        if name not in known:
            folder = settings.conf_dir or settings.usual_conf_dir
            say(f"No network {name} in {folder}: using this project's own, {own[name].source}")
    return [known.get(name) or own[name] for name in names]


def plugin_types(networks: Iterable[NetworkList]) -> set[str]:
    """Return the executables that these networks need: the plugins, and the IPAM plugins they delegate to."""
    plugins = [plugin for network in networks for plugin in network.plugins]
    return {name for plugin in plugins for name in (plugin.type, plugin.delegate) if name}


@contextmanager
def plugin_folders(settings: Settings, types: Iterable[str]) -> Iterator[tuple[Path, ...]]:
    """Yield the folders of CNI_PATH; the project's own plugins come last if one of `types` is in no other folder.

    They are written into `<state-dir>/bin`. If this user may not write there, they are written into a temporary folder
    for the with block. Raises InstallError, OSError.
    """
    configured = settings.plugin_dirs
    missing = sorted(name for name in types if not any((folder / name).exists() for folder in configured))
    own = [name for name in plugin_names() if name in missing] if missing else []
    if not own:
        yield configured
        return
    folders = ":".join(map(str, configured))
    _announce(settings, f"No {', '.join(own)} in {folders}: using this project's own, {settings.state_dir / 'bin'}")
    try:
        write_launchers(settings.state_dir / "bin")
    except PermissionError:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="cni-harness-") as temporary:
            write_launchers(Path(temporary))
            yield (*configured, Path(temporary))
    else:
        yield (*configured, settings.state_dir / "bin")


def _announce(settings: Settings, message: str) -> None:
    """Report the use of this project's lists or plugins: until they are in the state folder, and always with -v."""
    if settings.verbose or (settings.announces and not (settings.state_dir / "bin").exists()):
        say(message)
