"""The dependencies of the plugins: these and the standard library are all."""

import subprocess
import sys
from pathlib import Path

import pyroute2

from tests.cli import ROOT


def evaluated(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program of ours with an interpreter that has no packages but those in `folder`."""
    preface = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(folder)!r}]"
    return subprocess.run(
        [sys.executable, "-IS", "-c", f"{preface}\n{program}"], capture_output=True, text=True, check=False
    )


def test_plugins_need_no_package_but_pyroute2(tmp_path: Path) -> None:
    (tmp_path / "pyroute2").symlink_to(Path(pyroute2.__file__).parent)
    program = """
from importlib import import_module
from launch.installation import modules, search_path
for name in modules():
    import_module(name)
print(*search_path(), sep="\\n")
"""

    ran = evaluated(tmp_path, program)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [str(ROOT), str(tmp_path)]


def test_the_package_that_is_missing_is_named(tmp_path: Path) -> None:
    ran = evaluated(tmp_path, "from launch.installation import search_path; search_path()")

    assert ran.stderr.splitlines()[-1] == f"ValueError: pyroute2 is not installed for {sys.executable}"
