"""The checkout that is released: whether it can be, and its release notes."""

import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path


class UnfitError(Exception):
    """The checkout cannot be released."""


def check(root: Path, environ: Mapping[str, str]) -> None:
    """Raise UnfitError if files differ from the commit, or if the version has no notes, or is not the tag's.

    `environ` are the variables of a job on GitHub, if it is one. Raises OSError, subprocess.CalledProcessError.
    """
    if changed := git(root, "status", "--porcelain"):
        raise UnfitError(f"files differ from the commit: {', '.join(line[3:] for line in changed.splitlines())}")
    version = own_version(root)
    heading, notes = section((root / "CHANGELOG.md").read_text(), version)
    if not notes:
        raise UnfitError(f"CHANGELOG.md has no section for {version}, the version in pyproject.toml")
    if environ.get("GITHUB_REF_TYPE") != "tag":
        return
    if (tag := environ["GITHUB_REF_NAME"]) != f"v{version}":
        raise UnfitError(f"the tag is {tag}, the version in pyproject.toml is {version}")
    if not re.search(r" \d{4}-\d\d-\d\d$", heading):
        raise UnfitError(f'the heading of this version in CHANGELOG.md has no date: "{heading}"')


def own_version(root: Path) -> str:
    """Return the version in a checkout's pyproject.toml. Raises OSError."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def section(changelog: str, version: str) -> tuple[str, str]:
    """Return the heading of a version in CHANGELOG.md and the text below it; both are empty if it is missing."""
    found = re.search(rf"^## ({re.escape(version)}(?: [^\n]*)?)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return (found[1], found[2].strip()) if found else ("", "")


def git(root: Path, *arguments: str) -> str:
    """Return what git prints about a checkout, without the last new line. Raises subprocess.CalledProcessError."""
    # In a job's container the checkout is another user's, which git refuses.
    command = ["git", "-C", str(root), "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")
