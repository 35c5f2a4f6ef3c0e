"""Files of Debian packages: the owner of a file, and diversions, which dpkg respects in later upgrades."""

import os
import shutil
import subprocess
from pathlib import Path

from harness.install.commands import run

__all__ = ["divert", "diverted_to", "owner", "undivert"]


def owner(path: Path) -> str:
    """Return the Debian package that a file belongs to; empty if there is none, or dpkg is missing."""
    if shutil.which("dpkg-query") is None:
        return ""
    environment = {**os.environ, "LC_ALL": "C"}
    command = ["dpkg-query", "--search", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    # "PACKAGE[, PACKAGE]: PATH"; lines about diversions, "local diversion from: PATH", stand before it.
    for line in done.stdout.splitlines():
        names, _, found = line.partition(": ")
        if found == str(path) and not names.startswith(("diversion by ", "local diversion ")):
            return names
    return ""


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
