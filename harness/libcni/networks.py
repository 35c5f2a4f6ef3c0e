"""Network configurations on disk (SPEC.md section 1), found and read as libcni does.

A `.conflist` holds a whole network; a `.conf` or `.json` one plugin, which becomes a list of one plugin. The
plugins in `<folder>/<network>/*.conf` are appended to a list unless it sets `loadOnlyInlinedPlugins`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skel.config import Config
from skel.decoders import boolean, list_of, raw, string
from skel.environment import check_network_name
from skel.errors import CniError, Code
from skel.record import Record, expected, field
from skel.strict_json import decode_json
from skel.versions import SUPPORTED, parse

_LIST_SUFFIX = ".conflist"
_SINGLE_SUFFIXES = (".conf", ".json")


class NetworkError(Exception):
    """A network configuration that cannot be used; the message names the file, the key and the value."""


@dataclass(frozen=True)
class PluginConfig:
    """One plugin of a list: the keys for the runtime, and `raw` with every key as written.

    `capabilities` are those that the configuration declares true; `delegate` is its `ipam.type`.
    """

    type: str
    capabilities: frozenset[str]
    raw: dict[str, object]
    delegate: str = ""


@dataclass(frozen=True)
class NetworkList:
    """A network: its plugins in the order of ADD, and the version that the runtime uses with them.

    `name` is empty for a single plugin without a name: it can be loaded, as in libcni, but an ADD refuses it.
    `cni_versions` are the offered versions that the harness knows. The last is the highest and the one in use.
    `raw` is a `.conflist` of the same network, including plugins of its folder; the cache stores it.
    """

    name: str
    cni_version: str
    plugins: tuple[PluginConfig, ...]
    disable_check: bool
    disable_gc: bool
    raw: bytes
    source: Path | None
    cni_versions: tuple[str, ...] = ()

    def require_name(self) -> None:
        """Raise NetworkError without a name: containers cannot be attached then."""
        with _located(self.source):
            check_network_name(self.name)


def parse_network_list(text: bytes, source: Path | None = None) -> NetworkList:
    """Read a network list from its JSON text. Raises NetworkError."""
    with _located(source):
        return _network(_decoded(text), text, source, None)


def read_network_file(path: Path) -> NetworkList:
    """Read a network from a file: one plugin if it ends in .conf or .json, else a list. Raises NetworkError."""
    text = _read(path)
    with _located(path):
        document = _decoded(text)
        if path.suffix in _SINGLE_SUFFIXES:
            return _single(document, path)
        return _network(document, text, path, path.parent)


def network_files(conf_dir: Path) -> list[Path]:
    """Return the files of a folder that hold networks; of two files with one network name, the first counts.

    Each kind is sorted by file name; lists come before files with a single plugin, as in libcni. A missing folder
    holds none. Raises NetworkError.
    """
    return _list_files(conf_dir, (_LIST_SUFFIX,)) + _list_files(conf_dir, _SINGLE_SUFFIXES)


def load_networks(conf_dir: Path, *, on_error: Callable[[NetworkError], None] | None = None) -> list[NetworkList]:
    """Read every network of a folder, sorted by file name.

    Raises NetworkError, or hands it to `on_error`.
    """
    found: dict[str, NetworkList] = {}
    for path in network_files(conf_dir):
        try:
            network = read_network_file(path)
        except NetworkError as error:
            if on_error is None:
                raise
            on_error(error)
        else:
            found.setdefault(network.name, network)
    return sorted(found.values(), key=lambda network: network.source.name if network.source else "")


def _switch(value: object, path: str) -> bool:
    """Read a boolean, or a word that libcni accepts as one."""
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return boolean(value, path)


def _executable_name(value: object, path: str) -> str:
    """Read the name of a plugin's file (SPEC.md section 1, `type`)."""
    name = string(value, path)
    if name in {"", ".", ".."} or any(sign in name for sign in "/\\\0"):
        raise expected("the name of an executable", value, path)
    return name


class _List(Record):
    """The keys of a network list."""

    name: str = field(string, default="")
    cni_version: str = field(string, default="")
    cni_versions: list[str] = field(list_of(string), default=list)
    disable_check: bool = field(_switch, default=False)
    disable_gc: bool = field(_switch, "disableGC", default=False)
    load_only_inlined_plugins: bool = field(_switch, default=False)
    plugins: list[object] | None = field(list_of(raw), default=None)


class _Plugin(Config):
    """The keys of a plugin that the runtime reads, or that all plugins read in the same way."""

    type: str = field(_executable_name)


LIST_KEYS = tuple(known.key for known in _List._fields.values())
"""The keys of a list in their exact spelling; libcni ignores capitalisation for plugins' keys only."""


def _network(
    document: dict[str, object], text: bytes, source: Path | None, folder: Path | None, *, is_list: bool = True
) -> NetworkList:
    """Build a network from a list; `folder` may hold further plugins of it."""
    read = _List.decode({key: value for key, value in document.items() if key in LIST_KEYS})
    if read.name or is_list:
        check_network_name(read.name)
    if read.plugins is None and read.load_only_inlined_plugins:
        raise _invalid("plugins: required key is missing, as loadOnlyInlinedPlugins is true")
    versions = _known_versions(read.cni_version, read.cni_versions)
    inlined = tuple(_plugin(item, f"plugins[{index}]") for index, item in enumerate(read.plugins or ()))
    beside = () if folder is None or read.load_only_inlined_plugins else _folder_plugins(folder / read.name)
    if not inlined + beside:
        raise _invalid(f'plugins: network "{read.name}" has no plugins')
    if beside:
        listed = [plugin.raw for plugin in inlined + beside]
        text = json.dumps(document | {"loadOnlyInlinedPlugins": True, "plugins": listed}).encode()
    return NetworkList(
        name=read.name,
        cni_version=versions[-1],
        plugins=inlined + beside,
        disable_check=read.disable_check,
        disable_gc=read.disable_gc,
        raw=text,
        source=source,
        cni_versions=tuple(versions),
    )


def _single(document: dict[str, object], source: Path) -> NetworkList:
    """Build a network from a file that holds one plugin."""
    if "plugins" in document and "type" not in document:
        raise _invalid(f'plugins: a list of plugins belongs in a file that ends in "{_LIST_SUFFIX}"')
    plugin = _Plugin.decode(document)
    whole: dict[str, object] = {"cniVersion": plugin.cni_version, "name": plugin.name, "plugins": [document]}
    return _network(whole, json.dumps(whole).encode(), source, None, is_list=False)


def _plugin(item: object, path: str) -> PluginConfig:
    read = _Plugin.decode(item, path)
    declared = frozenset(name for name, supported in read.capabilities.items() if supported)
    written = item if isinstance(item, dict) else {}
    return PluginConfig(type=read.type, capabilities=declared, raw=written, delegate=read.ipam.type)


def _folder_plugins(folder: Path) -> tuple[PluginConfig, ...]:
    """Read the plugins of a network's own folder, by file name. Raises NetworkError."""
    plugins = []
    for path in _list_files(folder, (".conf",)):
        text = _read(path)
        with _located(path):
            plugins.append(_plugin(_decoded(text), ""))
    return tuple(plugins)


def _known_versions(version: str, versions: list[str]) -> list[str]:
    """Return the versions that configuration and runtime know, the highest last (SPEC.md, "Version considerations")."""
    offered = [*versions, *([version] if version or not versions else [])]
    for offer in offered:
        parse(offer)
    known = [offer for offer in SUPPORTED if offer in offered or (offer == "0.1.0" and "" in offered)]
    if not known:
        listed = " or ".join(f'"{offer}"' for offer in offered)
        raise _invalid(f"cniVersion: this runtime does not know {listed}; it knows {', '.join(SUPPORTED)}")
    return known


def _decoded(text: bytes) -> dict[str, object]:
    try:
        document = decode_json(text)
    except json.JSONDecodeError as error:
        raise _invalid(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start}: not UTF-8: {error.reason}") from None
    except ValueError as error:
        raise _invalid(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise expected("an object", document, "configuration")
    return document


def _invalid(message: str) -> CniError:
    return CniError(Code.INVALID_CONFIG, message)


@contextmanager
def _located(source: Path | None) -> Iterator[None]:
    """Add the file's name to an error, unless the error already names a file."""
    try:
        yield
    except CniError as error:
        raise NetworkError(f"{source or 'network configuration'}: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NetworkError(f"{path}: {error.strerror}") from None


def _list_files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of a folder that end in one of `suffixes`, sorted; none if the folder is missing."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise NetworkError(f"{folder}: {error.strerror}") from None
    return [path for path in paths if path.name.endswith(suffixes) and not path.is_dir()]
