"""Fixtures of the tests of the conformance suite."""

import shutil
from pathlib import Path

import pytest

from tests.conformance.subjects import PLUGINS, SOUND


@pytest.fixture(scope="session")
def sound_bin_dir(direct_bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for CNI_PATH with a sound plugin of every profile."""
    folder = tmp_path_factory.mktemp("sound") / "bin"
    shutil.copytree(direct_bin_dir, folder)
    for name in (name for names in SOUND.values() for name in names):
        if not (folder / name).exists():
            shutil.copy(PLUGINS / name, folder)
    return folder
