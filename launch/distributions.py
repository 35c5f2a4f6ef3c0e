"""Plugins of other distributions, which declare entry points of our group.

    [project.entry-points."cni_harness.plugins"]
    NAME = "module:PLUGIN"

NAME is the executable's file name. The installation reads them for the launchers, and the server when it starts. A
plugin's own process does not: its launcher names the modules, because importlib.metadata takes longer than a plugin.
"""

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import NamedTuple

from . import PLUGINS
from .installation import python_files

GROUP = "cni_harness.plugins"
"""Of entry points (the packaging specifications, "Entry points")."""
_OURS = "cni-harness"
# A launcher takes digits alone for a file descriptor, and no runtime looks at a hidden file.
_FILE_NAME = re.compile(r"(?!\d+\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Distribution(NamedTuple):
    """A distribution that declares plugins."""

    name: str
    version: str
    folder: str
    """The folder of its metadata."""
    plugins: tuple[tuple[str, str], ...]
    """Name and "module:object" of each."""
    record: str
    """Its list of files with their digests (RECORD); "" for one that was not installed from a wheel."""


class OtherPlugins(NamedTuple):
    """The declarations of other distributions, by name."""

    distributions: tuple[Distribution, ...]

    @property
    def plugins(self) -> dict[str, str]:
        """Return "module:object" of each plugin by its name.

        Raises ValueError for a name that two of them declare, or that one of ours has, or that is no file name.
        """
        owners = dict.fromkeys(PLUGINS, _OURS)
        found: dict[str, str] = {}
        for distribution in self.distributions:
            for name, target in distribution.plugins:
                if not _FILE_NAME.fullmatch(name):
                    message = f'{distribution.name} declares a plugin "{name}": that is no name of an executable'
                    raise ValueError(message)
                if name in owners:
                    message = f'both {owners[name]} and {distribution.name} have a plugin "{name}": uninstall one'
                    raise ValueError(message)
                owners[name], found[name] = distribution.name, target
        return found

    def folders(self) -> list[str]:
        """Return the folders that `sys.path` needs for the plugins' modules and the distributions' metadata."""
        found = [distribution.folder for distribution in self.distributions]
        for spec in self._specs():
            places = spec.submodule_search_locations
            files = [spec.origin or ""] if places is None else list(places)
            found += [os.path.dirname(os.path.abspath(file)) for file in files if os.path.exists(file)]
        return list(dict.fromkeys(found))

    def sources(self) -> Iterator[str]:
        """Yield the paths of the modules, or of all files of Python in the packages, that the plugins are in."""
        for spec in self._specs():
            if spec.submodule_search_locations is None:
                if spec.origin is not None and os.path.exists(spec.origin):
                    yield spec.origin
                continue
            for place in spec.submodule_search_locations:
                yield from python_files(place)

    def _specs(self) -> Iterator[ModuleSpec]:
        targets = [target for distribution in self.distributions for _, target in distribution.plugins]
        # Of the package at the top: to find a module in it would execute it.
        for name in sorted({re.split(r"[.:]", target, maxsplit=1)[0] for target in targets}):
            try:
                spec = find_spec(name)
            except (ImportError, ValueError):
                continue  # its plugins answer with the error
            if spec is not None:
                yield spec


def declared() -> OtherPlugins:
    """Return the plugins that distributions on `sys.path` declare; of two with one name, the first counts."""
    found: dict[str, Distribution] = {}
    for distribution in metadata.distributions():
        # Most have none of our group, and are read no further.
        if GROUP not in (distribution.read_text("entry_points.txt") or ""):
            continue
        points = [point for point in distribution.entry_points if point.group == GROUP]
        name = distribution.metadata["Name"]
        if points:
            found.setdefault(
                re.sub(r"[-_.]+", "-", name).lower(),
                Distribution(
                    name=name,
                    version=distribution.version,
                    folder=os.path.abspath(str(distribution.locate_file(""))),
                    plugins=tuple(sorted((point.name, point.value) for point in points)),
                    record=distribution.read_text("RECORD") or "",
                ),
            )
    return OtherPlugins(tuple(found[name] for name in sorted(found)))


def announced() -> list[tuple[object, ...]]:
    """Return what differs as soon as a distribution with plugins comes, goes or is installed anew.

    It is for the server, which asks again and again: importlib.metadata leaves garbage, and the collector is off.
    Raises OSError, as when one is just being replaced.
    """
    found: list[tuple[object, ...]] = []
    for folder in sys.path:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            points = os.path.join(folder, name, "entry_points.txt")
            if not name.endswith((".dist-info", ".egg-info")) or not os.path.exists(points):
                continue
            with open(points, "rb", buffering=0) as file:
                text = file.read()
            if GROUP.encode() in text:
                record = os.path.join(folder, name, "RECORD")
                status = os.stat(record) if os.path.exists(record) else None
                found.append((points, text, status and (status.st_mtime_ns, status.st_size, status.st_ino)))
    return found
