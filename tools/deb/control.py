"""The control files and documents of a Debian package."""

import gzip
import hashlib
import os
import shutil
from collections.abc import Iterable
from email.utils import formatdate
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

from tools.deb.run import output
from tools.deb.tree import PYTHONS

_HERE: Final = Path(__file__).parent
_CHECKOUT: Final = _HERE.parents[1]
_SCRIPTS: Final = ("postinst", "prerm", "postrm")

_CONTROL: Final = """\
Package: cni-harness
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kibibytes}
Depends: python3 (>= {first}), python3 (<< {after}), libc6 (>= 2.17), iproute2
Recommends: nftables
Suggests: containerd, containernetworking-plugins
Section: net
Priority: optional
Description: container network plugins (CNI) in Python, and a runtime to try them
 The plugins bridge, host-local and loopback take the place of those of
 containernetworking-plugins, with the same configuration and files. The
 command cni-harness gives pods their networks as a container runtime does,
 shows what plugins did, and holds any plugin to the CNI specification.
 .
 The plugins are put into /usr/lib/cni, where containerd looks for them, and a
 server of systemd's saves each of them the start of Python.
"""
_COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: cni-harness

Files: *
Copyright: 2026 the cni-harness developers
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
Comment:
 The folder /usr/lib/cni-harness has these distributions from the Python Package
 Index too. Their licenses are in the folders there that end with dist-info.
{others}
"""


def write_documents(tree: Path, version: str, releases: Iterable[Distribution]) -> None:
    """Write /usr/share/doc/cni-harness: the license, the changelog, the network lists. Raises OSError."""
    folder = tree / "usr/share/doc/cni-harness"
    folder.mkdir(parents=True)
    others = [f" {each.name} {each.version}" for each in releases if each.name != "cni-harness"]
    (folder / "copyright").write_text(_COPYRIGHT.format(others="\n".join(others)))
    entry = [f"cni-harness ({version}) stable; urgency=medium", "", "  * See CHANGELOG.md.gz.", ""]
    dated = [*entry, f" -- {_maintainer()}  {formatdate(_time())}", ""]
    (folder / "changelog.Debian.gz").write_bytes(gzip.compress("\n".join(dated).encode(), mtime=0))
    (folder / "CHANGELOG.md.gz").write_bytes(gzip.compress((_CHECKOUT / "CHANGELOG.md").read_bytes(), mtime=0))
    overrides = tree / "usr/share/lintian/overrides/cni-harness"
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(_HERE / "lintian-overrides", overrides)


def write_control(tree: Path, version: str) -> None:
    """Write DEBIAN/, when all other files are there. Raises OSError, subprocess.CalledProcessError."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    folder = tree / "DEBIAN"
    folder.mkdir()
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files]  # noqa: S324 -- dpkg's format
    (folder / "md5sums").write_text("".join(sums))
    shutil.copyfile(_HERE / "triggers", folder / "triggers")
    configured = (f"/{path.relative_to(tree)}\n" for path in files if path.is_relative_to(tree / "etc"))
    (folder / "conffiles").write_text("".join(configured))
    for name in _SCRIPTS:
        shutil.copyfile(_HERE / name, folder / name)
        (folder / name).chmod(0o755)
    major, minor = PYTHONS[-1].split(".")
    control = _CONTROL.format(
        version=version,
        architecture=output("dpkg", "--print-architecture").strip(),
        maintainer=_maintainer(),
        kibibytes=sum(path.stat().st_size for path in files) // 1024,
        first=PYTHONS[0],
        after=f"{major}.{int(minor) + 1}",
    )
    (folder / "control").write_text(control)


def _time() -> float | None:
    """Return the time of the build in seconds since 1970, None for now. The same source gives the same package."""
    return float(epoch) if (epoch := os.environ.get("SOURCE_DATE_EPOCH")) else None


def _maintainer() -> str:
    """Return whoever builds it, by the variables that Debian's own tools read."""
    name = os.environ.get("DEBFULLNAME", "cni-harness developers")
    return f"{name} <{os.environ.get('DEBEMAIL', 'cni-harness@example.org')}>"
