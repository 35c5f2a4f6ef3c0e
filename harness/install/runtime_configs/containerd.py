"""containerd's CRI plugin (docs/cri/config.md and cmd/containerd/server/config/config.go of containerd)."""

import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.install.runtime_configs.toml_files import (
    ConfigError,
    Document,
    Root,
    RuntimeCniConfig,
    folder,
    folders,
    strings,
    table,
)
from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR

NAME: Final = "containerd"

_CONFIG: Final = Path("/etc/containerd/config.toml")
_DROP_INS: Final = Path("/etc/containerd/conf.d/*.toml")
"""The default configuration imports them; it applies if there is no file (containerd 2.2)."""
_SECTIONS: Final = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
"""The section of the CRI plugin, by the `version` of the file."""
_DISABLING: Final = frozenset({*_SECTIONS.values(), "io.containerd.grpc.v1.cri"})

Release = tuple[int, int]


def read(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of containerd's configuration. Raises ConfigError."""
    release = _release(root)
    documents = _documents(root, release)
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
    return RuntimeCniConfig(
        NAME,
        files=tuple(document.path for document in documents),
        bin_dirs=_bin_dirs(cni),
        conf_dir=folder(cni["conf_dir"][0], "conf_dir", cni["conf_dir"][1]) if "conf_dir" in cni else DEFAULT_CONF_DIR,
        own_types=() if cni.get("use_internal_loopback", (None, False))[1] is True else ("loopback",),
        setting=_setting(version, documents[0].path if documents else _CONFIG),
        unused="disabled_plugins names its CRI plugin" if disabled & _DISABLING else "",
    )


def _documents(root: Root, release: Release) -> list[Document]:
    """Return the configuration file and its imports, each once."""
    first = root.toml(_CONFIG)
    if first is None:
        return root.documents(root.files(_DROP_INS)) if release >= (2, 2) else []
    found, pending = {_CONFIG: first}, _imports(root, first)
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


def _setting(version: int, path: Path) -> str:
    section = _SECTIONS.get(version, _SECTIONS[3])
    key = 'bin_dir = "{folder}"' if version < max(_SECTIONS) else "bin_dirs = [{folders}]"
    return f'{key} in [plugins."{section}".cni] of {path}'


def _release(root: Root) -> Release:
    """Return the release that the executable prints; without one, a release that reads the file's version."""
    executable = root.executable(NAME)
    if executable is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            run = subprocess.run(
                [executable, "--version"], capture_output=True, text=True, timeout=10, check=False, cwd="/"
            )
            if found := re.search(r"\sv?(\d+)\.(\d+)", run.stdout):
                return int(found[1]), int(found[2])
    document = root.toml(_CONFIG)
    return (2, 0) if document is not None and _version(document) >= max(_SECTIONS) else (1, 7)
