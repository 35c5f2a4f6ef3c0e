"""Debian's kernel, unpacked into a folder and never installed."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

METAPACKAGE: Final = "linux-image-amd64"
"""Of the release's own kernel. Not the one for clouds, which has no 9p."""


class Kernel(NamedTuple):
    """A kernel and its modules."""

    release: str
    root: Path
    """Where the package is unpacked."""

    @property
    def image(self) -> Path:
        """The kernel that the machine boots."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """What belongs to /lib/modules/RELEASE."""
        return self.root / "lib" / "modules" / self.release

    def files_of(self, *modules: str) -> list[Path]:
        """The files of modules and of all that they need, in the order in which they can be loaded."""
        command = ["modprobe", "-d", str(self.root), "-S", self.release, "--show-depends", "--all", *modules]
        shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        lines = [line.split() for line in shown.splitlines()]
        return list(dict.fromkeys(Path(words[1]) for words in lines if words[0] == "insmod"))


def debian_kernel(cache: Path, metapackage: str = METAPACKAGE) -> Kernel:
    """Return the kernel that is in `cache`; if it is missing, fetch the newest one of this machine's Debian.

    `metapackage` is the package that depends on it: "linux-image-6.12-amd64" is in the security archive of Debian 12.
    Each has a folder of its own in `cache`. Raises LookupError if it is unknown, and CalledProcessError.
    """
    if metapackage != METAPACKAGE:
        cache /= metapackage
    for kept in sorted(cache.glob("linux-image-*/complete")):
        return Kernel(kept.read_text(), kept.parent)
    cache.mkdir(parents=True, exist_ok=True)
    try:
        package = _download(cache, metapackage)
    except (LookupError, subprocess.CalledProcessError):
        # The machine's package lists are missing or too old.
        subprocess.run(["apt-get", "update", "--quiet=2"], check=True)
        package = _download(cache, metapackage)
    root = cache / package
    shutil.rmtree(root, ignore_errors=True)
    for archive in cache.glob(f"{package}_*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
        archive.unlink()
    kernel = Kernel(package.removeprefix("linux-image-"), root)
    subprocess.run(["depmod", "-b", root, kernel.release], check=True)
    (root / "complete").write_text(kernel.release)
    return kernel


def _download(folder: Path, metapackage: str) -> str:
    """Put the archive of the package that the metapackage stands for into a folder; return the package's name."""
    depends = ["apt-cache", "depends", metapackage]
    shown = subprocess.run(depends, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"Depends: (linux-image-\S+)", shown)
    if found is None:
        raise LookupError(f"{metapackage} is unknown here")
    # apt's own user could not write below a folder of root's.
    download = ["apt-get", "download", "--quiet=2", "-o", "APT::Sandbox::User=root", found[1]]
    subprocess.run(download, cwd=folder, check=True)
    return found[1]
