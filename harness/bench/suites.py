"""Which suites are compared: folders that were named, or our own plugins next to the reference's."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from harness.bench.server import serving
from harness.bench.subjects import Suite
from harness.bench.targets import DIRECT, OURS, REFERENCE
from launch.launcher import is_ours, launcher_bytes
from launch.plugin_list import PLUGINS

__all__ = ["REFERENCE_BIN_DIR", "suites_of"]

REFERENCE_BIN_DIR: Final = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins are."""


@contextmanager
def suites_of(named: Mapping[str, tuple[Path, ...]], *, serve: bool) -> Iterator[list[Suite]]:
    """Yield the suites that are in the named folders; or, where none are named, our own and the reference's.

    With `serve` our own plugins have a fork server for the with block, and then they are compared without one, too. Of
    folders that were named, those of this installation's launchers are served likewise, by launchers made for it.
    Raises ServerError, OSError.
    """
    with ExitStack() as closing:
        if named:
            yield [
                _served(name, closing) if serve and _are_ours(folders) else Suite(name, folders)
                for name, folders in named.items()
            ]
            return
        direct = _folder(closing, socket="")
        suites = [_served(OURS, closing), Suite(DIRECT, (direct,), brief=True)] if serve else [Suite(OURS, (direct,))]
        if (REFERENCE_BIN_DIR / "bridge").exists():
            suites.append(Suite(REFERENCE, (REFERENCE_BIN_DIR,)))
        yield suites


def _served(name: str, closing: ExitStack) -> Suite:
    # Wherever other temporary files are, this path is short enough for a socket.
    socket = _temporary(closing, within="/run") / "server.sock"
    folder = _folder(closing, socket=str(socket))
    return Suite(name, (folder,), closing.enter_context(serving(socket, folder / next(iter(PLUGINS)))))


def _folder(closing: ExitStack, *, socket: str) -> Path:
    """Make a folder of our plugins, which ask the server at `socket`, none where it is empty."""
    folder = _temporary(closing)
    for name in PLUGINS:
        launcher = folder / name
        launcher.write_bytes(launcher_bytes(socket=socket))
        launcher.chmod(0o755)
    return folder


def _temporary(closing: ExitStack, within: str | None = None) -> Path:
    folder = Path(mkdtemp(prefix="cni-harness-bench-", dir=within))
    closing.callback(shutil.rmtree, folder)
    return folder


def _are_ours(folders: tuple[Path, ...]) -> bool:
    return is_ours(str(folders[0] / next(iter(PLUGINS))))
