"""`cni-harness version`: the versions of this program and of the plugins."""

import os
import re
from pathlib import Path

from harness.cli.options import Settings, verb
from harness.locations import DEFAULT_BIN_DIR, own_version
from harness.output import TextTable, write
from skel.versions import REFERENCE_RELEASE, SUPPORTED

_TIMEOUT_S = 5.0
_AT_ONCE = 8
_ABOUT = re.compile(r"^CNI \S+ plugin (?:version )?v?(\S+)$", re.MULTILINE)
"""The line that plugins built on a skeleton print on stderr if CNI_COMMAND is missing, with their release."""


@verb(
    "version",
    examples={
        "version": "Show this program's version, and the plugins",
        "version --bin-dir /usr/lib/cni -o json": "Those of another folder, for a program",
    },
)
def command(settings: Settings) -> None:
    """Show the version of this program, the CNI versions that it speaks, and the plugins: each with its versions.

    RELEASE is the version that a plugin prints. This project's plugins print the release of containernetworking/plugins
    that they behave as, because runtimes ask for features by it. SUITE is the package or distribution that brought the
    plugin, with its version. CNI VERSIONS are those of the specification. No root is needed.
    """
    from concurrent.futures import ThreadPoolExecutor

    from harness.cli.defaults import plugin_folders
    from harness.install.packages import Suite, suites
    from launch.installation import plugin_names

    # Our own plugins are shown only if the folders have no others.
    configured = settings.bin_dirs or (DEFAULT_BIN_DIR,)
    wanted = () if any(map(_executables, configured)) else plugin_names()
    with plugin_folders(settings, wanted) as folders:
        found = dict[str, Path]()
        for folder in folders:
            for name in _executables(folder):
                found.setdefault(name, folder)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            plugins = list(pool.map(lambda item: _plugin(settings, *item), sorted(found.items())))
        own = own_version()
        brought_by = suites([folder / name for name, folder in found.items()], Suite("cni-harness", own))
    rows = []
    for each in plugins:
        suite = brought_by[Path(str(each["folder"]), str(each["type"]))]
        each["suite"] = suite._asdict()
        rows.append([str(each["type"]), str(each["version"]), str(suite), _listed(each), str(each["folder"])])
    document = {
        "version": own,
        "cniVersions": list(SUPPORTED),
        "referenceRelease": REFERENCE_RELEASE,
        "plugins": plugins,
    }
    if settings.is_table:
        write(f"cni-harness {own}")
        write(f"Versions of the CNI specification: {', '.join(SUPPORTED)}")
        write(
            f"Its plugins print {REFERENCE_RELEASE}: the release of containernetworking/plugins that they behave as\n"
        )
    settings.emit(document, TextTable(("PLUGIN", "RELEASE", "SUITE", "CNI VERSIONS", "FOLDER"), rows))


def _executables(folder: Path) -> list[str]:
    """Return the names of the executable files of a folder; hidden files are not plugins."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [path.name for path in paths if path.name[0] != "." and path.is_file() and os.access(path, os.X_OK)]


def _plugin(settings: Settings, name: str, folder: Path) -> dict[str, object]:
    from harness.cli.execution_log import execution_logger
    from harness.libcni.execute import Executor, PluginError
    from harness.libcni.operations import plugin_versions
    from harness.overload import overload

    executor = Executor([folder], timeout=_TIMEOUT_S * overload(), observe=execution_logger(settings.verbose))
    entry: dict[str, object] = {"type": name, "folder": str(folder), "version": ""}
    try:
        entry["cniVersions"] = plugin_versions(executor, name)
        about = _ABOUT.search(executor.run(name, "", b"", {}).stderr.decode(errors="replace"))
        entry["version"] = about[1] if about else ""
    except PluginError as error:
        entry["error"] = str(error)
    return entry


def _listed(plugin: dict[str, object]) -> str:
    versions = plugin.get("cniVersions")
    return ", ".join(map(str, versions)) if isinstance(versions, list) else str(plugin["error"])
