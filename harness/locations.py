"""The folders that runtimes and this program use if nothing else is configured, and this program's version."""

from pathlib import Path
from typing import Final

DEFAULT_CONF_DIR: Final = Path("/etc/cni/net.d")
DEFAULT_BIN_DIR: Final = Path("/opt/cni/bin")
DEFAULT_STATE_DIR: Final = Path("/var/lib/cni-harness")

OWN_CONF_DIR: Final = Path(__file__).parents[1] / "conf"
"""This project's own network lists. An import of `conf` by name could find a package of the user's."""


def own_version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cni-harness")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
