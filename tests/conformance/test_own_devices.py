"""tap and host-device: the suite as far as links matter, and ADDs that are killed at any point."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.finding import Outcome
from tests.conformance.own import IPAM, LINK_CHECKS, WIDE, interface_plugin, with_uplink
from tests.conformance.subjects import run_check

pytestmark = pytest.mark.sudo

PLUGINS: dict[str, dict[str, Any]] = {
    "tap": {"capabilities": dict.fromkeys(("ips", "ipRanges", "mac"), True), "multiQueue": True, "ipam": IPAM},
    "host-device": {"device": "uplink0", "capabilities": dict.fromkeys(("ips", "ipRanges"), True), "ipam": IPAM},
}
KILLS = 16


@pytest.fixture
def options(tmp_path: Path) -> CheckOptions:
    """On each node there is a device."""
    return with_uplink(tmp_path, kills=KILLS)


@pytest.mark.mostly_slow(16, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{plugin}-{check.id}")
        for plugin in PLUGINS
        for check in all_checks()
        if check.id in LINK_CHECKS
    ],
)
def test_conformance(plugin: str, check: Check, bin_dir: Path, tmp_path: Path, options: CheckOptions) -> None:
    examined = interface_plugin(plugin, PLUGINS[plugin], bin_dir)

    finding = run_check(check, examined, state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_a_device_that_ended_with_its_container_is_no_finding(
    direct_bin_dir: Path, tmp_path: Path, options: CheckOptions
) -> None:
    folder = tmp_path / "bin"
    shutil.copytree(direct_bin_dir, folder)
    plugin = folder / "host-device"
    # Its DEL fails without the container: that the next ADD does not find the device is not its fault.
    plugin.write_text(
        f'#!/bin/sh\n[ "$CNI_COMMAND" = DEL ] && [ ! -e "$CNI_NETNS" ] && exit 1\nexec {direct_bin_dir}/host-device\n'
    )
    examined = interface_plugin("host-device", PLUGINS["host-device"], folder)
    [check] = [each for each in all_checks() if each.id == "gc-then-del"]

    finding = run_check(check, examined, state_dir=tmp_path / "state", options=options)

    assert finding.outcome is Outcome.NOT_APPLICABLE, finding.detail


@pytest.mark.slow("kills at many points; test_pods_crash kills adds in make test")
def test_killed_adds_leave_nothing(direct_bin_dir: Path, tmp_path: Path, options: CheckOptions) -> None:
    """Of tap: a device can be in one pod only, and tests/node/host_device/test_crash.py kills its ADDs."""
    chaos = kill_adds(
        interface_plugin("tap", PLUGINS["tap"], direct_bin_dir, WIDE), state_dir=tmp_path, options=options
    )

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []
