"""The machine that is provisioned gets the copy of the checkout that `vagrant up` would make."""

import json
import re
import tarfile
from pathlib import Path

from tests.cli import ROOT
from tools.vm.debian import pack_checkout


def test_what_vagrant_leaves_out_is_left_out(tmp_path: Path) -> None:
    vagrantfile = (ROOT / "Vagrantfile").read_text()
    excluded = re.search(r"rsync__exclude: (\[.*?\])", vagrantfile)
    assert excluded
    left_out = [name.rstrip("/") for name in json.loads(excluded[1])]
    checkout, archive = tmp_path / "checkout", tmp_path / "checkout.tar"
    for name in [*left_out, "skel", "tools/build"]:
        (checkout / name).mkdir(parents=True)
        (checkout / name / "file").touch()

    pack_checkout(checkout, archive)

    with tarfile.open(archive) as packed:
        assert sorted(member.name for member in packed if member.isfile()) == ["./skel/file", "./tools/build/file"]
