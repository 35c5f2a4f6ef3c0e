"""The folders from which the container runtimes of this machine read plugins and network lists."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.install.runtime_configs import containerd, crio, podman
from harness.install.runtime_configs.toml_files import ConfigError, Root, RuntimeCniConfig

__all__ = ["RuntimeCniConfig", "runtime_configs"]

_READERS: Final[dict[str, Callable[[Root], RuntimeCniConfig]]] = {
    containerd.NAME: containerd.read,
    crio.NAME: crio.read,
    podman.NAME: podman.read,
}


def runtime_configs(folder: Path = Path("/")) -> list[RuntimeCniConfig]:
    """Return the configuration of each runtime whose executable or configuration file is below `folder`.

    An unreadable configuration has a `problem`, and the runtime's defaults.
    """
    root = Root(folder)
    found = []
    for name, read in _READERS.items():
        try:
            config = read(root)
        except ConfigError as error:
            config = RuntimeCniConfig(name, problem=str(error))
        if config.problem or config.files or root.executable(name) is not None:
            found.append(config)
    return found
