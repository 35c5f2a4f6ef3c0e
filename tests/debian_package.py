"""The Debian package under test, and what dpkg and others leave on a machine of it."""

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


def install(package: Path) -> list[str]:
    """The command that installs it, of what is on this machine already."""
    return ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", str(package)]


def files(run: Callable[[Sequence[str]], str]) -> set[str]:
    """Every file, folder and link of a machine, with its mode, size and target, and what dpkg diverts.

    `run` executes a command there and returns its stdout.
    """
    listing = run(["find", *_FOLDERS, "-xdev", "-printf", "%p %y %m %Ts %s %l\n"]).splitlines()
    # A folder's time and size change with names in it that come and go.
    found = {" ".join(words[:3]) if (words := line.split(" "))[1] == "d" else line for line in listing}
    kept = {line for line in found if not line.startswith((*_OTHERS, *_KEPT))}
    return kept | set(run(["dpkg-divert", "--list"]).splitlines())
