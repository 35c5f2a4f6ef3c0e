"""Fixtures of the launchers' tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.launchers import Installed


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The launcher as it is built here, and as it is where freestanding.c does not compile."""
    folder = tmp_path_factory.mktemp("builds")
    strict = ("-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-Werror")
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_launcher", f"--build-lib={folder}"],
        cwd=ROOT,
        env={**os.environ, "CFLAGS": " ".join(strict)},
        check=True,
    )
    libc = folder / "libc"
    flags = ("-std=c11", "-O2", "-Wall", "-Wextra", *strict, "-static")
    subprocess.run(["cc", *flags, "launch/launcher.c", "launch/handoff.c", "-o", str(libc)], cwd=ROOT, check=True)
    return {"compiled": folder / "launch" / "_launcher", "libc": libc}


@pytest.fixture(params=["compiled", "libc", "python"])
def installed(request: pytest.FixtureRequest, tmp_path: Path, builds: dict[str, Path]) -> Installed:
    return Installed(request.param, tmp_path, builds.get(request.param))


@pytest.fixture(params=["compiled", "libc"])
def compiled(request: pytest.FixtureRequest, tmp_path: Path, builds: dict[str, Path]) -> Installed:
    return Installed(request.param, tmp_path, builds[request.param])
