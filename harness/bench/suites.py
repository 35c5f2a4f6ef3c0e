"""The suites to compare: named folders, or our own plugins next to the reference's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness.bench.server import write_launchers
from harness.bench.subjects import Suite
from launch.launcher import is_ours
from launch.plugin_list import PLUGINS

__all__ = ["OURS", "REFERENCE", "REFERENCE_BIN_DIR", "own_plugins", "suites_of"]

OURS: Final = "cni-harness"
REFERENCE: Final = "reference"
"""The names of the suites that are compared unless folders are named."""

REFERENCE_BIN_DIR: Final = Path("/usr/lib/cni")
"""The folder of Debian's containernetworking-plugins."""


@contextmanager
def suites_of(named: Mapping[str, tuple[Path, ...]], *, serve: bool) -> Iterator[list[Suite]]:
    """Yield the suites in the named folders; if no folders are named, our own and the reference's.

    With `serve` our own plugins are measured with a server. Plugins in named folders also get one if they are this
    installation's launchers. Raises OSError.
    """
    if named:
        yield [Suite(name, folders, served=serve and _are_ours(folders)) for name, folders in named.items()]
        return
    with own_plugins() as folder:
        suites = [Suite(OURS, (folder,), served=serve)]
        if (REFERENCE_BIN_DIR / "bridge").exists():
            suites.append(Suite(REFERENCE, (REFERENCE_BIN_DIR,)))
        yield suites


@contextmanager
def own_plugins() -> Iterator[Path]:
    """Make a folder of our plugins that ask no server, for the with block. Raises OSError."""
    with TemporaryDirectory(prefix="cni-harness-bench-") as name:
        folder = Path(name)
        write_launchers(folder, "")
        yield folder


def _are_ours(folders: tuple[Path, ...]) -> bool:
    return is_ours(str(folders[0] / next(iter(PLUGINS))))
