"""The files of the package, but for those about it."""

import gzip
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from harness.install.units import dhcp_units, units
from tools.deb.run import output, run

PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The versions of Debian 12, Ubuntu 24.04 and Debian 13: compiled modules have the version in their names."""

_HERE: Final = Path(__file__).parent
_FOLDER: Final = "usr/lib/cni-harness"
_LEFT_OUT: Final = (
    # the dependencies' commands; a copy of libyaml that PyYAML does without; the manufacturers of network cards, 5 MB
    *("bin", "_yaml", "yaml/_yaml.*.so", "netaddr/eui/*.idx", "netaddr/eui/*.txt"),
    # pip's records, with paths of the machine that builds, and digests of files that are left out
    *("*.dist-info/RECORD", "*.dist-info/direct_url.json"),
)


def fill_tree(tree: Path, wheel: Path, man: Path) -> list[Distribution]:
    """Write the files into `tree`, with the pages of the manual in `man`; return the distributions among them.

    Raises OSError, subprocess.CalledProcessError.
    """
    folder = tree / _FOLDER
    _unpack(wheel, folder)
    _copy(_HERE / "refuse-downgrade", folder / "refuse-downgrade", 0o755)
    _copy(_HERE / "dpkg.cfg", tree / "etc/dpkg/dpkg.cfg.d/cni-harness", 0o644)
    _copy(_HERE / "cni-harness", tree / "usr/bin/cni-harness", 0o755)
    unit_dir = tree / "lib/systemd/system"
    # The server looks for the plugins of other packages when it starts.
    server = units(unit_dir, arguments=["/usr/bin/cni-harness", "serve"])
    for path, content in (server | dhcp_units(unit_dir, ["/usr/lib/cni/dhcp", "daemon"])).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.text)
        path.chmod(content.mode)
    for page in sorted(man.glob("*.[1-8]")):
        compressed = tree / "usr/share/man" / f"man{page.suffix[1:]}" / f"{page.name}.gz"
        compressed.parent.mkdir(parents=True, exist_ok=True)
        compressed.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    return sorted(distributions(path=[str(folder)]), key=lambda each: each.name.lower())


def _unpack(wheel: Path, folder: Path) -> None:
    """Put the project and its dependencies into one folder, the same releases of them for each of `PYTHONS`."""
    constraints = folder.parent / "constraints"
    for version in PYTHONS:
        own = folder.parent / version
        options = ["--no-compile", "--only-binary", ":all:", "--python-version", version, "--target", str(own)]
        if constraints.exists():
            options += ["--constraint", str(constraints)]
        else:
            constraints.parent.mkdir(parents=True)
        run(*_PIP, "install", "--quiet", "--find-links", str(wheel.parent), *options, str(wheel))
        # The first one's releases, but not the project itself, which is named by its file.
        constraints.write_text(output(*_PIP, "freeze", "--path", str(own), "--exclude", "cni-harness"))
        shutil.copytree(own, folder, dirs_exist_ok=True)
        shutil.rmtree(own)
    constraints.unlink()
    for pattern in _LEFT_OUT:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.name == "_launcher" else 0o644)
        if path.suffix == ".so":
            run("strip", "--strip-unneeded", str(path))


_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def _copy(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)
