"""Copies of this installation, for tests that change one."""

import shutil
import subprocess
import sys
from pathlib import Path

from launch.installation import PACKAGES
from tests.cli import ROOT


def copied(root: Path) -> Path:
    """Copy this installation into a new folder, and return that."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def evaluated(root: Path, expression: str) -> bytes:
    """The output of a process that has the installation at `root`, for an expression of its launcher's module."""
    script = f"import sys; sys.path[:0] = {[str(root), *sys.path]!r}; from launch.launcher import *; "
    script += f"from launch.installation import build_id, stamp; sys.stdout.buffer.write({expression})"
    return subprocess.run([sys.executable, "-I", "-c", script], stdout=subprocess.PIPE, check=True).stdout


def build_id_of(root: Path) -> bytes:
    """The build ID of the installation at `root`."""
    return evaluated(root, "build_id()")
