"""The subjects of a comparison: suites of plugins, and the networks that they serve."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness.libcni.execute import Executor
from harness.libcni.networks import NetworkList, parse_network_list
from launch import PLUGINS
from launch.installation import PACKAGES, ROOT, plugin_names, search_path
from launch.launcher import is_ours, launcher_bytes

PLAIN: Final = "bench"
MASQUERADED: Final = "bench-masq"
"""The names of the networks that are measured unless others are named."""

OURS: Final = "cni-harness"
REFERENCE: Final = "reference"
"""The names of the suites that are compared unless folders are named."""

REFERENCE_BIN_DIR: Final = Path("/usr/lib/cni")
"""The folder of Debian's containernetworking-plugins."""

_LIBRARY: Final = "pyroute2"


@dataclass(frozen=True)
class BenchSuite:
    """A folder of plugins, or several as in CNI_PATH, under a name for the report.

    A `served` suite is our own plugins, which get a server on each node. A `brief` suite is measured only in single
    executions on a node without other pods.
    """

    name: str
    bin_dirs: tuple[Path, ...]
    served: bool = False
    brief: bool = False


@dataclass(frozen=True)
class SuiteSize:
    """A suite and its size in bytes: the executables that were measured, and the suite's files that they load.

    An interpreter, and libraries of the system, are left out.
    """

    suite: BenchSuite
    plugins: int
    code: int
    form: str
    """The kind of its first plugin: "binary" or "script"."""


@contextmanager
def suites_of(named: Mapping[str, tuple[Path, ...]], *, serve: bool) -> Iterator[list[BenchSuite]]:
    """Yield the suites in the named folders; if no folders are named, our own and the reference's.

    With `serve` our own plugins are measured with a server. Plugins in named folders also get one if they are this
    installation's launchers. Raises OSError.
    """
    if named:
        first = next(iter(PLUGINS))
        for_server = {name: serve and is_ours(str(folders[0] / first)) for name, folders in named.items()}
        yield [BenchSuite(name, folders, served=for_server[name]) for name, folders in named.items()]
        return
    with own_plugins() as folder:
        suites = [BenchSuite(OURS, (folder,), served=serve)]
        if (REFERENCE_BIN_DIR / "bridge").exists():
            suites.append(BenchSuite(REFERENCE, (REFERENCE_BIN_DIR,)))
        yield suites


@contextmanager
def own_plugins() -> Iterator[Path]:
    """Make a folder of our plugins that ask no server, for the with block. Raises OSError."""
    with TemporaryDirectory(prefix="cni-harness-bench-") as name:
        folder = Path(name)
        write_launchers(folder, "")
        yield folder


def default_networks() -> list[NetworkList]:
    """Return a bridge with host-local, and the same with `ipMasq`, in a version that older plugins know."""
    return [_bridge(PLAIN, "bench0", "10.80.0.0/16"), _bridge(MASQUERADED, "bench1", "10.81.0.0/16", ipMasq=True)]


def suite_size(suite: BenchSuite, networks: Sequence[NetworkList]) -> SuiteSize:
    """Measure the size of the part of a suite that these networks need. Raises PluginNotFoundError, OSError."""
    executor = Executor(suite.bin_dirs)
    plugins = [plugin for network in networks for plugin in network.plugins]
    needed = {name for plugin in plugins for name in (plugin.type, plugin.delegate) if name}
    paths = [executor.find(name) for name in sorted(needed)]
    libraries = [path for folder in search_path() if (path := Path(folder, _LIBRARY)).is_dir()]
    code = bytes_on_disk([*(Path(ROOT, name) for name in PACKAGES), *libraries]) if is_ours(str(paths[0])) else 0
    with paths[0].open("rb") as file:
        form = "script" if file.read(2) == b"#!" else "binary"
    return SuiteSize(suite, bytes_on_disk(paths), code, form)


def bytes_on_disk(paths: Iterable[Path]) -> int:
    """Return the length of these files, and of the files in these folders; hard links to one file count once."""
    files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    return sum({(status.st_dev, status.st_ino): status.st_size for status in map(Path.stat, files)}.values())


def write_launchers(folder: Path, socket: str) -> None:
    """Write our plugins, and those that other distributions declare, into a folder.

    They ask the server at `socket`; none if it is empty. Raises OSError, ValueError.
    """
    content = launcher_bytes(socket=socket)
    for name in plugin_names():
        launcher = folder / name
        launcher.write_bytes(content)
        launcher.chmod(0o755)


def _bridge(name: str, bridge: str, subnet: str, **keys: object) -> NetworkList:
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]]}
    plugin = {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, **keys, "ipam": ipam}
    return parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]}).encode())
