"""An ADD that always fails, with a message that names the interface: one finding, whatever the interface is called."""

from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile
from tests.conformance.subjects import subject
from tests.findings import examine
from tests.nodes import HANG

UNABLE = """#!/bin/sh
[ "$CNI_COMMAND" = ADD ] || exit 0
printf '{"cniVersion": "1.1.0", "code": 100, "msg": "cannot make \\\\"%s\\\\" in the container"}' "$CNI_IFNAME"
exit 1
"""


@pytest.mark.sudo
def test_checks_of_unusual_names_are_not_examined(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bridge").write_text(UNABLE)
    (tmp_path / "bin" / "bridge").chmod(0o755)
    wanted = [check for check in all_checks() if check.id in {"ifname-longest", "add-makes-interface"}]

    found = examine(
        subject(Profile.INTERFACE, tmp_path / "bin"),
        wanted,
        state_dir=tmp_path / "state",
        options=CheckOptions(timeout=HANG),
    )

    outcomes = {each.check.id: each.outcome for each in found}
    assert outcomes.pop("add-prints-result") is Outcome.FAIL
    assert outcomes == dict.fromkeys(("ifname-longest", "add-makes-interface"), Outcome.NOT_EXAMINED)
