"""Files of Debian packages: the owners of files, and diversions, which dpkg respects in later upgrades."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from harness.install.commands import run


def owners(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the Debian package of each file that belongs to one; nothing if dpkg is missing.

    One dpkg-query looks up all files, since it reads the lists of all packages first.
    """
    wanted = {str(path): path for path in paths}
    if not wanted or shutil.which("dpkg-query") is None:
        return {}
    environment = {**os.environ, "LC_ALL": "C"}
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
