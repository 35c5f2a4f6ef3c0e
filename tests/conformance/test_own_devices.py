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
SAMPLE = {
    *("add-makes-interface", "add-existing-interface", "add-keeps-existing-interface", "add-netns-gone"),
    *("add-late-failure-leaves-nothing", "add-after-del", "add-tells-interfaces", "add-interfaces-exist", "add-mac"),
    *("add-mtu", "add-addresses", "add-interface-index", "add-sandbox", "delegate-undone-after-failed-add"),
    *("del-undoes-add", "del-twice", "del-never-added", "del-netns-gone", "del-netns-empty", "del-after-failed-add"),
    *("del-without-prev-result-leaves-nothing", "del-interface-gone", "del-files-gone", "del-releases-address"),
    *("gc-keeps-valid", "gc-removes-stale", "gc-then-del", "gc-then-add", "nerdctl-last-del", "null-settings"),
    *("check-after-add", "check-address-missing", "check-interface-missing", "check-interface-down"),
    *("check-interface-other-mac", "check-never-added", "own-namespace", "keys-in-any-case", "version-result"),
}
"""Checks that depend on the kind of interface; those of the protocol alone run with ptp and macvlan."""
NEEDS_ITS_RECORD = {"del-files-gone"}
"""Without the record the device gets its name back, and stays down."""
UNFIT = {"tap": set[str](), "host-device": NEEDS_ITS_RECORD}
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


@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{plugin}-{check.id}")
        for plugin in PLUGINS
        for check in checks()
        if check.id in SAMPLE - UNFIT[plugin]
    ],
)
def test_conformance(plugin: str, check: Check, direct_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    finding = run_check(check, subject(plugin, direct_bin_dir), state_dir=tmp_path / "state", extent=extent)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_nothing_is_left_of_a_killed_add(direct_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    """Of tap: a device can be in one pod only, and tests/node/test_host_device.py kills its ADDs."""
    chaos = wreak(subject("tap", direct_bin_dir, WIDE), state_dir=tmp_path, extent=extent)

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []
