"""The machine that is provisioned gets the copy of the checkout that `vagrant up` would make."""

import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.cli import ROOT
from tools.vm.debian import pack_checkout


@pytest.mark.needs("rsync")
def test_checkout_copy_excludes_vagrants_exclusions(tmp_path: Path) -> None:
    vagrantfile = (ROOT / "Vagrantfile").read_text()
    excluded = re.search(r"rsync__exclude: (\[.*?\])", vagrantfile)
    assert excluded
    patterns = json.loads(excluded[1])
    checkout, copy, archive = tmp_path / "checkout", tmp_path / "copy", tmp_path / "checkout.tar"
    folders = [pattern.strip("/").replace("*", "any") for pattern in patterns if pattern.endswith("/")]
    for name in [*(f"{folder}/file" for folder in folders), "launch/_launcher", "skel/file", "tools/build/file"]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()

    pack_checkout(checkout, archive)
    with tarfile.open(archive) as packed:
        packed_files = {member.name.removeprefix("./") for member in packed if member.isfile()}
    # As Vagrant calls it.
    without = [f"--exclude={pattern}" for pattern in patterns]
    subprocess.run(["rsync", "--archive", *without, f"{checkout}/", copy], check=True)
    copied_files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}

    assert packed_files == copied_files == {"skel/file", "tools/build/file"}
