"""A Debian to boot, made by mmdebstrap, and its Python packages: it has no network to get them."""

import hashlib
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# The packages of the Vagrantfile's box, and a compiler, which takes minutes to unpack on an emulated processor.
_PACKAGES: Final = (
    "ca-certificates",
    "gcc",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libc6-dev",
    "procps",
    "python3",
    "systemd-sysv",
    "udev",
)
# A machine that is to run pods, with what their images are made of.
OF_CONTAINERD: Final = ("busybox-static", "containerd", "nftables", "runc")
# A machine on which releases are installed.
OF_RELEASES: Final = ("nftables", "python3-venv")
# What tools/provision.sh and the Makefile are to find missing, and to install from apt's cache.
_MISSING: Final = ("make", "nftables", "python3-venv")
_LEFT_OUT: Final = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
# The Vagrantfile's list.
_NOT_COPIED: Final = (".git", ".venv", ".vagrant", "build", "launch/_launcher", "*.egg-info")


def debian_root(cache: Path, *packages: str, release: str = "") -> Path:
    """Return a folder with a release of Debian, made if it is not in `cache`; without `release`, it is this machine's.

    It has `packages` besides those of all machines. They come from the mirror that mmdebstrap takes by itself.
    """
    included = (*_PACKAGES, *packages)
    own = platform.freedesktop_os_release()["VERSION_CODENAME"]
    release = release or own
    root = cache / f"{release}-{_digest(*included, *_MISSING, *_LEFT_OUT)}"
    complete = root.with_suffix(".complete")
    if not complete.exists():
        shutil.rmtree(root, ignore_errors=True)
        options = ["--variant=minbase", "--mode=root", "--quiet", f"--include={','.join(included)}"]
        options += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
        if release != own:
            # Signatures are checked, but not their age: a mirror may have a copy that is weeks old.
            options += ['--aptopt=Acquire::Check-Valid-Until "false"']
        # Or systemd takes it for a machine that nobody has ever configured, and asks.
        options += ["--customize-hook=chroot $1 systemd-machine-id-setup"]
        # Its cache is to have those that are missing, and no others.
        options += ["--customize-hook=chroot $1 apt-get clean", "--skip=cleanup/apt"]
        later = ["apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", "--download-only", *_MISSING]
        options += [f"--customize-hook=chroot $1 {' '.join(later)}"]
        # Its mounts there must not outlive it: somebody may remove the folder.
        subprocess.run(["unshare", "--mount", "--", "mmdebstrap", *options, release, root], check=True)
        complete.touch()
    return root


def wheels(cache: Path, checkout: Path, *, python: str = "", extras: Sequence[str] = ()) -> Path:
    """Return a folder with the wheels that installing the checkout, with extras, needs.

    They are for another version of Python than this one, such as "3.13", if `python` names it.
    """
    project = tomllib.loads((checkout / "pyproject.toml").read_text())
    required = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    optional = project["project"]["optional-dependencies"]
    required += [each for extra in extras for each in optional[extra] if not each.startswith("cni-harness[")]
    folder = cache / f"wheels-{_digest(python or sys.version, *required)}"
    complete = folder.with_suffix(".complete")
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _pip("download", "--only-binary", ":all:", *_for(python), "--dest", str(folder), *required)
        complete.touch()
    return folder


def pytest_folder(cache: Path, *required: str, python: str = "") -> Path:
    """Return a folder for PYTHONPATH that has pytest, and other distributions; `python` is as for `wheels`."""
    folder = cache / "-".join(
        ["pytest", *([_digest(*required)] if required else []), *([f"py{python.replace('.', '')}"] if python else [])]
    )
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _pip("install", *_for(python), "--target", str(partial), "pytest", "pytest-timeout", *required)
        partial.rename(folder)
    return folder


def _for(python: str) -> list[str]:
    return ["--python-version", python, "--only-binary", ":all:"] if python else []


def pack_checkout(checkout: Path, archive: Path) -> None:
    """Write what `vagrant up` would copy into an archive."""
    left_out = [f"--exclude=./{name}" for name in _NOT_COPIED]
    subprocess.run(["tar", "-cf", archive, "-C", checkout, *left_out, "--exclude=__pycache__", "."], check=True)


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
