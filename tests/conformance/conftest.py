"""Fixtures of the tests of the conformance suite."""

import shutil
from pathlib import Path

import pytest

from tests.conformance.subjects import PLUGINS, SOUND


@pytest.fixture(scope="session")
def sound_bin_dir(served_bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for CNI_PATH with a sound plugin of every profile.

    A server executes ours: stand-ins call them several times in each check, and would start Python each time.
    """
    return _with_stand_ins(served_bin_dir, tmp_path_factory.mktemp("sound") / "bin")


@pytest.fixture(scope="session")
def direct_sound_bin_dir(direct_bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a server, to examine our plugins in processes of their own."""
    return _with_stand_ins(direct_bin_dir, tmp_path_factory.mktemp("direct-sound") / "bin")


def _with_stand_ins(bin_dir: Path, folder: Path) -> Path:
    shutil.copytree(bin_dir, folder)
    for name in (name for names in SOUND.values() for name in names):
        if not (folder / name).exists():
            shutil.copy(PLUGINS / name, folder)
    return folder
