"""ptp and macvlan: the whole suite, and ADDs and DELs that are killed or ended at any point."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check, checks
from harness.conformance.chaos import By, wreak
from harness.conformance.finding import Outcome
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, run_check
from harness.conformance.subject import Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.nodes import HANG
from tools.soak.soak import Soak, soak, survey

pytestmark = pytest.mark.sudo

CAPABILITIES = dict.fromkeys(("ips", "ipRanges", "mac"), True)
IPAM = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.66.0.0/27"}], [{"subnet": "2001:db8::/64"}]],
    "statusFailsWhenFull": True,
}
PLUGINS: dict[str, dict[str, Any]] = {
    "ptp": {"ipMasq": True, "dns": {"nameservers": ["10.66.0.1"]}, "ipam": IPAM | {"routes": [{"dst": "0.0.0.0/0"}]}},
    "macvlan": {"master": "uplink0", "ipam": IPAM | {"routes": [{"dst": "10.77.0.0/16"}]}},
}
KILLS = 60
WIDE = "10.66.0.0/16"


@pytest.fixture
def extent(tmp_path: Path) -> Extent:
    """On each node there is an uplink, for a master."""
    program = tmp_path / "uplink.sh"
    program.write_text(
        "#!/bin/sh -e\n"
        "ip link add uplink0 type veth peer name uplink1\n"
        "ip link set uplink0 up\n"
        "ip link set uplink1 up\n"
    )
    program.chmod(0o755)
    return Extent(timeout=HANG, preparation=program, kills=KILLS, killers=2)


def subject(plugin: str, bin_dir: Path, subnet: str = "10.66.0.0/27") -> Subject:
    """Few addresses can be used up; killed ADDs keep some until GC, and need more."""
    keys = {"type": plugin, "capabilities": CAPABILITIES, **PLUGINS[plugin]}
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
@pytest.mark.parametrize("kind", ["direct", "served"])
def test_nothing_is_left_of_a_killed_add(
    plugin: str, kind: str, tmp_path: Path, extent: Extent, request: pytest.FixtureRequest
) -> None:
    bin_dir: Path = request.getfixturevalue(f"{kind}_bin_dir")

    chaos = wreak(subject(plugin, bin_dir, WIDE), state_dir=tmp_path, extent=extent)

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_nothing_is_left_of_a_verb_that_sigterm_ends(
    plugin: str, verb: str, tmp_path: Path, direct_bin_dir: Path, extent: Extent
) -> None:
    """Of the second half: in the first one the interpreter starts."""
    examined = subject(plugin, direct_bin_dir, WIDE)
    calls, _ = survey(examined, verb, tmp_path, extent)
    points = tuple(range(calls // 2, calls + 1, max(1, calls // KILLS)))

    tally = soak(Soak("direct", examined, verb, By.CALLS, points, extent), tmp_path, 2)

    assert tally.left == []
    assert tally.left_for_good == []
    assert tally.ended > 0
