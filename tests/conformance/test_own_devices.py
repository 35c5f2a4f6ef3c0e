"""tap and host-device: the suite as far as it fits them, and ADDs that are killed at any point."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check, checks
from harness.conformance.chaos import wreak
from harness.conformance.finding import Outcome
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, run_check
from harness.conformance.subject import Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

IPAM = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.66.0.0/27"}], [{"subnet": "2001:db8::/64"}]],
    "statusFailsWhenFull": True,
}
PLUGINS: dict[str, dict[str, Any]] = {
    "tap": {"capabilities": dict.fromkeys(("ips", "ipRanges", "mac"), True), "multiQueue": True, "ipam": IPAM},
    "host-device": {"device": "uplink0", "capabilities": dict.fromkeys(("ips", "ipRanges"), True), "ipam": IPAM},
}
KILLS = 16
WIDE = "10.66.0.0/16"


@pytest.fixture
def extent(tmp_path: Path) -> Extent:
    """On each node there is a device."""
    program = tmp_path / "uplink.sh"
    program.write_text(
        "#!/bin/sh -e\n"
        "ip link add uplink0 type veth peer name uplink1\n"
        "ip link set uplink0 up\n"
        "ip link set uplink1 up\n"
    )
    program.chmod(0o755)
    return Extent(timeout=HANG, preparation=program, kills=KILLS, killers=1)


def subject(plugin: str, bin_dir: Path, subnet: str = "10.66.0.0/27") -> Subject:
    """Few addresses can be used up; killed ADDs keep some until GC, and need more."""
    keys = {"type": plugin, **PLUGINS[plugin]}
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [keys]}).replace("10.66.0.0/27", subnet)
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=Profile.INTERFACE, only=[plugin])
    return found


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(
    "check", [check for check in checks() if Profile.INTERFACE in check.profiles], ids=lambda check: check.id
)
def test_conformance(check: Check, plugin: str, direct_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    finding = run_check(check, subject(plugin, direct_bin_dir), state_dir=tmp_path / "state", extent=extent)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


@pytest.mark.parametrize("plugin", PLUGINS)
def test_nothing_is_left_of_a_killed_add(plugin: str, direct_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    chaos = wreak(subject(plugin, direct_bin_dir, WIDE), state_dir=tmp_path, extent=extent)

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []
