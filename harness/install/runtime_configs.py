"""The folders from which the container runtimes of this machine read plugins and network lists."""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.install.toml_files import ConfigError, Document, Root, RuntimeCniConfig, folder, folders, strings, table
from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR

_CONTAINERD: Final = Path("/etc/containerd/config.toml")
_CONTAINERD_DROP_INS: Final = Path("/etc/containerd/conf.d/*.toml")
"""The default configuration imports them; it applies if there is no file (containerd 2.2)."""
_SECTIONS: Final = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
"""The section of the CRI plugin, by the `version` of the file."""
_DISABLING: Final = frozenset({*_SECTIONS.values(), "io.containerd.grpc.v1.cri"})

Release = tuple[int, int]

_CRIO: Final = Path("/etc/crio/crio.conf")
_CRIO_DROP_INS: Final = Path("/etc/crio/crio.conf.d")

_PODMAN_FILES: Final = (Path("/usr/share/containers/containers.conf"), Path("/etc/containers/containers.conf"))
_PODMAN_DROP_INS: Final = Path("/etc/containers/containers.conf.d/*.conf")
_CHOSEN_BACKEND: Final = Path("/var/lib/containers/storage/defaultNetworkBackend")
"""The back end that the first start of Podman chose, if the configuration names none."""
_BIN_DIRS: Final = ("/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/usr/lib/cni", "/opt/cni/bin")
_CHAIN: Final = ("bridge", "host-local", "portmap", "firewall", "tuning")


def runtime_configs(top: Path = Path("/")) -> list[RuntimeCniConfig]:
    """Return the configuration of each runtime whose executable or configuration file is below `top`.

    An unreadable configuration has a `problem`, and the runtime's defaults.
    """
    root = Root(top)
    found = []
    for name, read in (("containerd", _containerd), ("crio", _crio), ("podman", _podman)):
        try:
            config = read(root)
        except ConfigError as error:
            config = RuntimeCniConfig(name, problem=str(error))
        if config.problem or config.files or root.executable(name) is not None:
            found.append(config)
    return found


def _containerd(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of containerd's CRI plugin. Raises ConfigError.

    See docs/cri/config.md and cmd/containerd/server/config/config.go of containerd.
    """
    release = _release(root)
    documents = _containerd_documents(root, release)
    version = _version(documents[0]) if documents else 3 if release >= (2, 0) else 2
    cni: dict[str, tuple[Path, object]] = {}
    disabled = set[str]()
    for document in documents:
        disabled.update(strings(document.path, "disabled_plugins", document.content.get("disabled_plugins", [])))
        plugins = table(document, "plugins")
        section = _SECTIONS.get(_version(document), _SECTIONS[3])
        if section in plugins and release < (2, 0):
            cni.clear()  # containerd 1 replaces the whole section of a plugin, containerd 2 merges
        cni |= {key: (document.path, value) for key, value in table(document, "plugins", section, "cni").items()}
    path = documents[0].path if documents else _CONTAINERD
    key = 'bin_dir = "{folder}"' if version < max(_SECTIONS) else "bin_dirs = [{folders}]"
    return RuntimeCniConfig(
        "containerd",
        files=tuple(document.path for document in documents),
        bin_dirs=_bin_dirs(cni),
        conf_dir=folder(cni["conf_dir"][0], "conf_dir", cni["conf_dir"][1]) if "conf_dir" in cni else DEFAULT_CONF_DIR,
        own_types=() if cni.get("use_internal_loopback", (None, False))[1] is True else ("loopback",),
        setting=f'{key} in [plugins."{_SECTIONS.get(version, _SECTIONS[3])}".cni] of {path}',
        unused="disabled_plugins names its CRI plugin" if disabled & _DISABLING else "",
    )


def _containerd_documents(root: Root, release: Release) -> list[Document]:
    """Return the configuration file and its imports, each once."""
    first = root.toml(_CONTAINERD)
    if first is None:
        return root.documents(root.files(_CONTAINERD_DROP_INS)) if release >= (2, 2) else []
    found, pending = {_CONTAINERD: first}, _imports(root, first)
    while pending:
        path = pending.pop(0)
        if path in found:
            continue
        document = root.toml(path)
        if document is None:
            raise ConfigError(f"{path}: an imported file that is missing")
        found[path] = document
        pending += _imports(root, document)
    return list(found.values())


def _imports(root: Root, document: Document) -> list[Path]:
    found: list[Path] = []
    for text in strings(document.path, "imports", document.content.get("imports", [])):
        path = document.path.parent / text
        found += root.files(path) if "*" in text else [path]
    return found


def _version(document: Document) -> int:
    version = document.content.get("version", 1)
    if not isinstance(version, int):
        raise ConfigError(f"{document.path}: version: expected a number, got {version!r}")
    return version


def _bin_dirs(cni: Mapping[str, tuple[Path, object]]) -> tuple[Path, ...]:
    several, one = ("bin_dirs" in cni, "bin_dir" in cni and cni["bin_dir"][1] != "")
    if several and (listed := folders(cni["bin_dirs"][0], "bin_dirs", cni["bin_dirs"][1])):
        if one and listed != (DEFAULT_BIN_DIR,):
            raise ConfigError(f"{cni['bin_dir'][0]}: bin_dir and bin_dirs cannot be set at the same time")
        if not one:
            return listed
    return (folder(cni["bin_dir"][0], "bin_dir", cni["bin_dir"][1]),) if one else (DEFAULT_BIN_DIR,)


def _release(root: Root) -> Release:
    """Return the release that the executable prints; without one, a release that reads the file's version."""
    executable = root.executable("containerd")
    if executable is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            run = subprocess.run(
                [executable, "--version"], capture_output=True, text=True, timeout=10, check=False, cwd="/"
            )
            if found := re.search(r"\sv?(\d+)\.(\d+)", run.stdout):
                return int(found[1]), int(found[2])
    document = root.toml(_CONTAINERD)
    return (2, 0) if document is not None and _version(document) >= max(_SECTIONS) else (1, 7)


def _crio(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of CRI-O's configuration. Raises ConfigError.

    See crio.conf(5) and pkg/config/config.go of CRI-O.
    """
    # All files below the folder of drop-ins, in the order of filepath.Walk.
    top = root.at(_CRIO_DROP_INS)
    below = sorted(Path(place, name).relative_to(top) for place, _, names in os.walk(top) for name in names)
    documents = root.documents([_CRIO, *(_CRIO_DROP_INS / path for path in below)])
    bin_dirs: tuple[Path, ...] = (DEFAULT_BIN_DIR,)
    conf_dir, deprecated, network = DEFAULT_CONF_DIR, None, ""
    for document in documents:
        keys, path = table(document, "crio", "network"), document.path
        if "plugin_dirs" in keys:
            bin_dirs = folders(path, "crio.network.plugin_dirs", keys["plugin_dirs"])
        if keys.get("plugin_dir"):
            deprecated = folder(path, "crio.network.plugin_dir", keys["plugin_dir"])
        if "network_dir" in keys:
            conf_dir = folder(path, "crio.network.network_dir", keys["network_dir"])
        network = str(keys.get("cni_default_network", network))
    if deprecated is not None:
        bin_dirs = (*bin_dirs, deprecated)
    return RuntimeCniConfig(
        "crio",
        files=tuple(document.path for document in documents),
        bin_dirs=bin_dirs,
        conf_dir=conf_dir,
        network=network,
        skips_unusable_lists=True,
        setting=f"plugin_dirs = [{{folders}}] in [crio.network] of a file in {_CRIO_DROP_INS}",
    )


def _podman(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of the configuration of Podman as root. Raises ConfigError.

    See containers.conf(5) and libnetwork/network/interface.go of containers/common.
    """
    documents = root.documents([*_PODMAN_FILES, *root.files(_PODMAN_DROP_INS)])
    bin_dirs: tuple[str, ...] = _BIN_DIRS
    append = False
    conf_dir, network, backend = DEFAULT_CONF_DIR, "podman", ""
    for document in documents:
        keys = table(document, "network")
        if "cni_plugin_dirs" in keys:
            listed, append = _appendable(document, "network.cni_plugin_dirs", keys["cni_plugin_dirs"], append)
            bin_dirs = (*bin_dirs, *listed) if append else listed
        if keys.get("network_config_dir"):
            conf_dir = folder(document.path, "network.network_config_dir", keys["network_config_dir"])
        network = str(keys.get("default_network") or network)
        backend = str(keys.get("network_backend") or backend)
    backend = backend or _chosen_backend(root)
    return RuntimeCniConfig(
        "podman",
        # The vendor's file comes with other packages too, and does not prove that Podman is installed.
        files=tuple(
            document.path for document in documents if document.path != _PODMAN_FILES[0] or root.executable("podman")
        ),
        bin_dirs=tuple(map(Path, bin_dirs)),
        conf_dir=conf_dir,
        network=network,
        built_in=_CHAIN,
        setting=f"cni_plugin_dirs = [{{folders}}] in [network] of {_PODMAN_FILES[1]}",
        unused=f'its network back end is "{backend}"' if backend not in {"", "cni"} else "",
    )


def _appendable(document: Document, key: str, value: object, append: bool) -> tuple[tuple[str, ...], bool]:  # noqa: FBT001 -- the earlier state
    """Read a list that may end with `{append = true}`; return it, and whether lists are appended from here on."""
    if not isinstance(value, list):
        return strings(document.path, key, value), append
    attributes = [each for each in value if isinstance(each, dict)]
    for attribute in attributes:
        append = attribute.get("append") is True
    return strings(document.path, key, [each for each in value if not isinstance(each, dict)]), append


def _chosen_backend(root: Root) -> str:
    try:
        return root.at(_CHOSEN_BACKEND).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_CHOSEN_BACKEND}: {error}") from None
