"""CRI-O (crio.conf(5) and pkg/config/config.go of CRI-O)."""

import os
from pathlib import Path
from typing import Final

from harness.install.runtime_configs.toml_files import Document, Root, RuntimeCniConfig, folder, folders, table
from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR

NAME: Final = "crio"

_CONFIG: Final = Path("/etc/crio/crio.conf")
_DROP_INS: Final = Path("/etc/crio/crio.conf.d")


def read(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of CRI-O's configuration. Raises ConfigError."""
    documents = _documents(root)
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
        NAME,
        files=tuple(document.path for document in documents),
        bin_dirs=bin_dirs,
        conf_dir=conf_dir,
        network=network,
        skips_unusable_lists=True,
        setting=f"plugin_dirs = [{{folders}}] in [crio.network] of a file in {_DROP_INS}",
    )


def _documents(root: Root) -> list[Document]:
    """Return the configuration file and all files below the folder of drop-ins, in the order of filepath.Walk."""
    top = root.at(_DROP_INS)
    below = sorted(Path(folder, name).relative_to(top) for folder, _, names in os.walk(top) for name in names)
    return root.documents([_CONFIG, *(_DROP_INS / path for path in below)])
