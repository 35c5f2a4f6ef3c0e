"""Podman as root (containers.conf(5), and libnetwork/network/interface.go of containers/common)."""

from pathlib import Path
from typing import Final

from harness.install.runtime_configs.toml_files import (
    ConfigError,
    Document,
    Root,
    RuntimeCniConfig,
    folder,
    strings,
    table,
)
from harness.locations import DEFAULT_CONF_DIR

NAME: Final = "podman"

_FILES: Final = (Path("/usr/share/containers/containers.conf"), Path("/etc/containers/containers.conf"))
_DROP_INS: Final = Path("/etc/containers/containers.conf.d/*.conf")
_CHOSEN_BACKEND: Final = Path("/var/lib/containers/storage/defaultNetworkBackend")
"""The back end that the first start of Podman chose, if the configuration names none."""
_BIN_DIRS: Final = ("/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/usr/lib/cni", "/opt/cni/bin")
_CHAIN: Final = ("bridge", "host-local", "portmap", "firewall", "tuning")


def read(root: Root) -> RuntimeCniConfig:
    """Return the CNI settings of Podman's configuration. Raises ConfigError."""
    documents = root.documents([*_FILES, *root.files(_DROP_INS)])
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
        NAME,
        # The vendor's file comes with other packages too, and does not prove that Podman is installed.
        files=tuple(document.path for document in documents if document.path != _FILES[0] or root.executable(NAME)),
        bin_dirs=tuple(map(Path, bin_dirs)),
        conf_dir=conf_dir,
        network=network,
        built_in=_CHAIN,
        setting=f"cni_plugin_dirs = [{{folders}}] in [network] of {_FILES[1]}",
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
