"""The suite that a plugin's file belongs to, found without executing it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from harness.install.packages import owners, versions
from launch.launcher import is_any_launcher, is_ours

OURS = "this cni-harness"
_OTHER = "another cni-harness"
_UNKNOWN = "unknown"


class Suite(NamedTuple):
    """Plugins that are released together; `version` is empty if it is unknown."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def origin(path: Path) -> str:
    """Return the origin of a plugin's file: this installation, another cni-harness, a Debian package, or unknown."""
    return _origins([path])[path]


def suites(paths: Iterable[Path], own: Suite) -> dict[Path, Suite]:
    """Return the suite of each plugin's file.

    It is `own` for this installation's plugins, a distribution of Python that declares plugins, or a Debian package;
    otherwise the name alone, as `origin` returns it.
    """
    from launch.distributions import declared

    declaring = {name: Suite(each.name, each.version) for each in declared().distributions for name, _ in each.plugins}
    origins = _origins(paths)
    packages = versions(set(origins.values()) - {OURS, _OTHER, _UNKNOWN})
    return {
        path: declaring.get(path.name, own) if found == OURS else Suite(found, packages.get(found, ""))
        for path, found in origins.items()
    }


def _origins(paths: Iterable[Path]) -> dict[Path, str]:
    found: dict[Path, str] = {}
    foreign: dict[Path, Path] = {}
    for path in paths:
        if is_ours(str(path)):
            found[path] = OURS
        elif is_any_launcher(str(path)):
            found[path] = _OTHER
        else:
            foreign[path] = path.resolve()
    packages = owners([*foreign, *foreign.values()])
    return found | {path: packages.get(target) or packages.get(path) or _UNKNOWN for path, target in foreign.items()}
