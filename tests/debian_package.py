"""The Debian package under test, an older one, and what dpkg and others leave on a machine of it."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cli import ROOT

BIN_DIR = "/usr/lib/cni"
REMOVE = ["apt-get", "purge", "--yes", "--quiet=2", "cni-harness"]
_FOLDERS = ("/etc", "/opt", "/usr", "/var/lib")
# Files that dpkg, apt, systemd and containerd write whatever is installed.
_OTHERS = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/lib/containerd", "/var/lib/systemd/timesync/", "/var/lib/private")
# Reservations belong to pods; the reference plugins leave these files too.
_KEPT = ("/var/lib/cni",)


def built_package() -> Path:
    """The package that `make deb` has built; AssertionError if there is none."""
    [package] = (ROOT / "build").glob("cni-harness_*.deb")
    return package


def older_package(folder: Path) -> Path:
    """Build a package of the last version before "one pod": with no file, and with that version's answers to dpkg."""
    return _empty_package(folder, "0.1.0", "set -e; py3clean -p cni-harness")


def refusing_package(folder: Path) -> Path:
    """Build a package of a later version that refuses to be replaced."""
    return _empty_package(folder, "9.0-1", '[ "$1" != upgrade ]')


def _empty_package(folder: Path, number: str, prerm: str) -> Path:
    control = folder / number / "DEBIAN"
    control.mkdir(parents=True)
    fields = {"Package": "cni-harness", "Version": number, "Architecture": "all", "Maintainer": "nobody"}
    fields["Description"] = "-"
    (control / "control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    (control / "prerm").write_text(f"#!/bin/sh\n{prerm}\n")
    (control / "prerm").chmod(0o755)
    package = folder / f"cni-harness_{number}_all.deb"
    subprocess.run(["dpkg-deb", "--build", control.parent, package], stdout=subprocess.DEVNULL, check=True)
    return package


def downgrades(package: Path) -> tuple[list[str], list[str]]:
    """The commands that replace a version by an older one."""
    options = ["--yes", "--quiet=2", "--no-install-recommends", "--allow-downgrades"]
    return ["dpkg", "--install", str(package)], ["apt-get", "install", *options, str(package)]


def version(run: Callable[[Sequence[str]], str]) -> str:
    """Status and version of the package, as dpkg has them; `run` is as for `files`."""
    return run(["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", "cni-harness"])


def install(package: Path) -> list[str]:
    """The command that installs it, of what is on this machine already."""
    return ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", str(package)]


def files(run: Callable[[Sequence[str]], str], *more: str) -> set[str]:
    """Every file, folder and link of a machine, with its mode, size and target, and what dpkg diverts.

    `run` executes a command there and returns its stdout. It looks also into the folders `more`.
    """
    listing = run(["find", *_FOLDERS, *more, "-xdev", "-printf", "%p %y %m %Ts %s %l\n"]).splitlines()
    # A folder's time and size change with names in it that come and go.
    found = {" ".join(words[:3]) if (words := line.split(" "))[1] == "d" else line for line in listing}
    kept = {line for line in found if not line.startswith((*_OTHERS, *_KEPT))}
    return kept | set(run(["dpkg-divert", "--list"]).splitlines())
