"""Build the Debian package: `python -m tools.deb` writes build/cni-harness_VERSION-REVISION_ARCHITECTURE.deb."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.deb.control import write_control, write_documents
from tools.deb.tree import fill_tree

_BUILD = Path(__file__).parents[2] / "build"
_REVISION: Final = 1
"""Of the package, for changes of tools/deb alone. Packages before the first one had none."""


def main() -> int:
    """Build it, and print its path. Raises OSError, subprocess.CalledProcessError."""
    from tools.deb.run import output, run

    [wheel] = _BUILD.glob("wheels/cni_harness-*x86_64.whl")
    version = f"{wheel.name.split('-')[1]}-{_REVISION}"
    package = _BUILD / f"cni-harness_{version}_{output('dpkg', '--print-architecture').strip()}.deb"
    with TemporaryDirectory(prefix="cni-harness-deb-") as folder:
        tree = Path(folder, "tree")
        releases = fill_tree(tree, wheel, _BUILD / "man")
        write_documents(tree, version, releases)
        write_control(tree, version)
        # gzip, or xz by default: zstd is for Ubuntu alone.
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(package))
    sys.stdout.write(f"{package}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
