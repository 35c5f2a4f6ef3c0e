"""Each property of a route in the result is held against the kernel's."""

import json
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check

pytestmark = pytest.mark.sudo

[ADD_ROUTES] = [check for check in all_checks() if check.id == "add-routes"]
ROUTES = [
    {"dst": "198.51.100.0/24", "gw": "10.66.0.9", "mtu": 1300, "advmss": 1200, "priority": 77, "table": 100},
    {"dst": "203.0.113.0/24", "gw": "10.66.0.9", "scope": 0},
    {"dst": "2001:db8:7::/48", "gw": "fd66::9", "mtu": 1280, "priority": 5, "scope": 253},
    {"dst": "2001:db8:8::/48"},
]
RANGES = [[{"subnet": "10.66.0.0/24"}], [{"subnet": "fd66::/64"}]]
BRIDGE = {"type": "bridge", "bridge": "cf0", "ipam": {"type": "host-local", "ranges": RANGES, "routes": ROUTES}}


def examined(bin_dirs: list[Path], folder: Path) -> Finding:
    network = {"cniVersion": "1.1.0", "name": "routes", "plugins": [BRIDGE]}
    listed = parse_network_list(json.dumps(network).encode())
    [bridge] = subjects_of(listed, bin_dirs, profile=Profile.INTERFACE, only=["bridge"])
    return run_check(ADD_ROUTES, bridge, state_dir=folder, options=CheckOptions())


def test_routes_with_all_attributes_are_as_said(direct_bin_dir: Path, tmp_path: Path) -> None:
    finding = examined([direct_bin_dir], tmp_path)

    assert finding.outcome is Outcome.PASS, finding.detail


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ('"mtu": 1300', '"mtu": 1400'),
        ('"advmss": 1200', '"advmss": 1100'),
        ('"priority": 77', '"priority": 7'),
        ('"priority": 5', '"priority": 1024'),
        ('"table": 100', '"table": 254'),
        ('"scope": 0', '"scope": 253'),
        ('"gw": "fd66::9"', '"gw": "fd66::8"'),
    ],
)
def test_spoilt_route_attribute_fails_the_check(said: str, instead: str, direct_bin_dir: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "bridge"
    spoilt.write_text(f"#!/bin/sh\n{direct_bin_dir}/bridge | sed 's|{said}|{instead}|'\n")
    spoilt.chmod(0o755)

    finding = examined([tmp_path, direct_bin_dir], tmp_path)

    assert finding.outcome is Outcome.FAIL
    assert "as the result says; got " in finding.detail
