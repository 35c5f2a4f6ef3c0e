"""The package or the suite that brought a file; diversions, which dpkg respects in later upgrades; system commands."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from launch.launcher import is_any_launcher, is_ours

OURS = "this cni-harness"
_OTHER = "another cni-harness"
_UNKNOWN = "unknown"


def owners(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the Debian package of each file that belongs to one; nothing if dpkg is missing.

    One dpkg-query looks up all files, since it reads the lists of all packages first.
    """
    wanted = {str(path): path for path in paths}
    if not wanted or shutil.which("dpkg-query") is None:
        return {}
    environment = {**os.environ, "LC_ALL": "C"}  # lines about diversions are known by their English words
    command = ["dpkg-query", "--search", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    # "PACKAGE[, PACKAGE]: PATH"; lines about diversions, "local diversion from: PATH", stand before it.
    found = (line.partition(": ") for line in done.stdout.splitlines())
    return {
        wanted[path]: names
        for names, _, path in found
        if path in wanted and not names.startswith(("diversion by ", "local diversion "))
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed Debian packages by name; nothing if dpkg is missing."""
    wanted = sorted(packages)
    if not wanted or shutil.which("dpkg-query") is None:
        return {}
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def divert(path: Path, aside: Path) -> None:
    """Have dpkg write `path` to `aside` from now on; no file is moved. Raises CommandError."""
    run("dpkg-divert", "--add", "--local", "--no-rename", "--divert", str(aside), str(path))


def diverted_to(path: Path) -> Path:
    """Return the path at which dpkg writes a package's file `path`. Raises CommandError."""
    return Path(run("dpkg-divert", "--truename", str(path)).strip())


def undivert(path: Path, aside: Path) -> None:
    """Remove the diversion of `divert`, if it still exists; no file is moved. Raises CommandError."""
    if shutil.which("dpkg-divert") is not None:
        run("dpkg-divert", "--remove", "--local", "--no-rename", "--divert", str(aside), str(path))


class Suite(NamedTuple):
    """Plugins that are released together; `version` is empty if it is unknown."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def suites(paths: Iterable[Path], own: Suite) -> dict[Path, Suite]:
    """Return the suite of each plugin's file.

    It is `own` for this installation's plugins, a distribution of Python that declares plugins, or a Debian package;
    otherwise the name alone, as `origins` returns it.
    """
    from launch.distributions import declared

    declaring = {name: Suite(each.name, each.version) for each in declared().distributions for name, _ in each.plugins}
    found_in = origins(paths)
    packages = versions(set(found_in.values()) - {OURS, _OTHER, _UNKNOWN})
    return {
        path: declaring.get(path.name, own) if found == OURS else Suite(found, packages.get(found, ""))
        for path, found in found_in.items()
    }


def origins(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the origin of each plugin's file: this installation, another cni-harness, a Debian package, or unknown."""
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


class CommandError(Exception):
    """A command failed; the message has its answer."""


def run(command: str, *arguments: str) -> str:
    """Run a command and return its standard output. Raises CommandError."""
    try:
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CommandError(f"{command}: {error.strerror}") from error
    if done.returncode != 0:
        raise CommandError(f"{command} {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
