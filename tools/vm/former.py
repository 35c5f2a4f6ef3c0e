"""The packages of an earlier commit, built from its files: an upgrade begins with them."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

BEFORE_ONE_POD: Final = "99bfebe9^"
"""The last commit whose programs do not know records of format 2."""


def former_packages(cache: Path, checkout: Path, commit: str = BEFORE_ONE_POD) -> Path:
    """Return a folder with the wheel and the Debian package of a commit; they are built if they are not in `cache`.

    The checkout is a clone with that commit. Raises subprocess.CalledProcessError.
    """
    command = ["git", "-C", str(checkout), "rev-parse", "--short=16", f"{commit}^{{commit}}"]
    digest = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    folder = cache / f"former-{digest}"
    if not folder.exists():
        tree, partial = cache / f"former-{digest}.tree", folder.with_suffix(".partial")
        for each in (tree, partial):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", str(checkout), "archive", digest], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        # With an environment of its own: its dependencies are those that its pyproject.toml names.
        subprocess.run(["make", "-C", tree, "deb"], check=True)
        for built in (*(tree / "build").glob("*.deb"), *(tree / "build/wheels").glob("cni_harness-*x86_64.whl")):
            shutil.copy2(built, partial)
        shutil.rmtree(tree)
        partial.rename(folder)
    return folder
