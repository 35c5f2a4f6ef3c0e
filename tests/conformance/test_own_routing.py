"""sbr and static: the whole suite. vrf needs a kernel that has VRFs (tests/vm)."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

ADDRESSES = [
    {"address": "10.66.0.2/27", "gateway": "10.66.0.1"},
    {"address": "2001:db8::2/64", "gateway": "2001:db8::1"},
]
STATIC = {"type": "static", "addresses": ADDRESSES, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
HOST_LOCAL = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.66.0.0/24"}], [{"subnet": "2001:db8::/64"}]],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
}
LISTS: dict[str, list[dict[str, Any]]] = {
    "sbr": [{"type": "ptp", "ipam": HOST_LOCAL}, {"type": "sbr"}],
    "static": [{"type": "static", "ipam": STATIC}],
}
PROFILES = {"sbr": Profile.CHAINED, "static": Profile.IPAM}
KILLS = 20
CASES = [
    pytest.param(plugin, check, id=f"{plugin}-{check.id}")
    for plugin, profile in PROFILES.items()
    for check in all_checks()
    if profile in check.profiles
]


def subject(plugin: str, bin_dir: Path) -> Subject:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": LISTS[plugin]})
    profile = None if plugin == "sbr" else PROFILES[plugin]
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=profile, only=[plugin])
    return found


@pytest.mark.mostly_slow(16, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.one_row_in(3)  # `make matrix` runs all, without a server
@pytest.mark.parametrize(("plugin", "check"), CASES)
def test_conformance(check: Check, plugin: str, served_bin_dir: Path, tmp_path: Path) -> None:
    options = CheckOptions(timeout=HANG, kills=KILLS, killers=2)

    finding = run_check(check, subject(plugin, served_bin_dir), state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail
