"""`python -m tools.release.files`: gather what other targets have built, and the rest, in build/release."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.release.archives import compressed, same_bytes, tar_of
from tools.release.checkout import own_version, section
from tools.release.sbom import sbom

_ROOT: Final = Path(__file__).parents[2]
_CONSTRAINTS: Final = Path(__file__).with_name("constraints.txt")
_BUILT: Final = (
    "wheels/cni_harness-{version}-*_x86_64.whl",
    "wheels/cni_harness-{version}-*_aarch64.whl",
    "cni-harness.pyz",
    "cni-harness_{version}-*.deb",
    "cni-harness-image-{version}.tar",
)
_SDIST: Final = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


def main() -> int:
    """Write the folder anew. Raises OSError, subprocess.CalledProcessError, ValueError for a file that is missing."""
    if loose := unpinned(_CONSTRAINTS.read_text(), distributions()):
        sys.stderr.write(f"no release: {_CONSTRAINTS.name} lacks {', '.join(loose)}\n")
        return 1
    build = _ROOT / "build"
    release = build / "release"
    shutil.rmtree(release, ignore_errors=True)
    release.mkdir()
    version = own_version(_ROOT)
    for pattern in _BUILT:
        [path] = build.glob(pattern.format(version=version))
        shutil.copy(path, release)
    (release / f"cni_harness-{version}.tar.gz").write_bytes(_source())
    for name, folder in {"site": build / "site", "man": build / "man", "reports": _ROOT / "reports"}.items():
        stem = f"cni-harness-{name}-{version}"
        (release / f"{stem}.tar.gz").write_bytes(compressed(tar_of(folder, f"{stem}/")))
    _, notes = section((_ROOT / "CHANGELOG.md").read_text(), version)
    (release / "RELEASE-NOTES.md").write_text(notes)
    (release / f"cni-harness-{version}.cdx.json").write_text(sbom(version, sorted(release.iterdir())))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(release.iterdir())]
    (release / "SHA256SUMS").write_text("".join(sums))
    return 0


def unpinned(constraints: str, installed: Iterable[Distribution]) -> list[str]:
    """Return the distributions of an environment that the constraints do not name with the same version."""
    pinned = set(re.findall(r"^[\w-]+==\S+$", constraints, re.MULTILINE))
    found = {f"{re.sub('[-_.]+', '-', each.name).lower()}=={each.version}" for each in installed}
    return sorted(each for each in found - pinned if not each.startswith(("cni-harness==", "pip==")))


def _source() -> bytes:
    """Return the source distribution."""
    with TemporaryDirectory(prefix="cni-harness-sdist-") as folder:
        subprocess.run([sys.executable, "-c", _SDIST, folder], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
        [archive] = Path(folder).iterdir()
        return compressed(same_bytes(archive))


if __name__ == "__main__":
    sys.exit(main())
