"""The list of things that a plugin's first ADD leaves for good."""

from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine.run import permanent_objects
from harness.conformance.subject import Profile
from tests.conformance.subjects import Unusual, install, subject
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

LEAVING = """#!/bin/sh
"${0%/*}/sound/${0##*/}" || exit
[ "$CNI_COMMAND" = ADD ] || exit 0
nft add table ip shared >&2
nft add chain ip shared "of-$CNI_CONTAINERID" >&2
"""


def test_shared_leftovers_are_listed_and_leftovers_of_each_add_are_not(sound_bin_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "bridge"
    path.write_text(LEAVING)
    path.chmod(0o755)
    leaving = Unusual(path, "", (), (), Profile.INTERFACE, "bridge", "", "")
    tested = subject(Profile.INTERFACE, install(leaving, sound_bin_dir, tmp_path / "bin"))

    left = permanent_objects(tested, tmp_path / "state", CheckOptions(timeout=HANG))

    assert left == ("link cf0", "nft table ip shared", "sysctl net.ipv4.ip_forward=1")
