"""`python -m tools.release`: build the commit that is checked out, of its own files alone, into build/release."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.release.checkout import UnfitError, check, git

_ROOT: Final = Path(__file__).parents[2]
_OF_BUILDERS: Final = {"CC", "CFLAGS", "DEBEMAIL", "DEBFULLNAME", "PYTHONPATH"}
"""Variables that change what is built."""


def main() -> int:
    """Build everything, and print the digests of the files. Raises OSError, subprocess.CalledProcessError."""
    try:
        check(_ROOT, os.environ)
    except UnfitError as error:
        sys.stderr.write(f"no release: {error}\n")
        return 1
    os.umask(0o022)  # a file's mode is a part of most archives
    commit = git(_ROOT, "rev-parse", "HEAD")
    tree = _ROOT / "build" / "release-tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = tree.with_suffix(".tar")
    git(_ROOT, "-c", "tar.umask=0022", "archive", f"--output={archive}", commit)
    subprocess.run(["tar", "-x", "-f", archive, "-C", tree], check=True)
    archive.unlink()
    subprocess.run(["make", "-C", tree, "release-files"], env=_environment(tree, commit), check=True)
    release = _ROOT / "build" / "release"
    shutil.rmtree(release, ignore_errors=True)
    (tree / "build" / "release").rename(release)
    shutil.rmtree(tree)
    sys.stdout.write((release / "SHA256SUMS").read_text())
    return 0


def _environment(tree: Path, commit: str) -> dict[str, str]:
    constraints = (tree / "tools" / "release" / "constraints.txt").as_uri()
    return {name: value for name, value in os.environ.items() if name not in _OF_BUILDERS} | {
        "SOURCE_DATE_EPOCH": git(_ROOT, "show", "--no-patch", "--format=%ct", commit),
        "GIT_COMMIT": commit,
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,  # of newer releases of pip, for setuptools
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


if __name__ == "__main__":
    sys.exit(main())
