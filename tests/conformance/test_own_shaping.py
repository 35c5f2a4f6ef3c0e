"""bandwidth and tuning behind a bridge: the checks that such plugins may fail, and ADDs that are killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

BRIDGE = {
    "type": "bridge",
    "bridge": "br0",
    "isGateway": True,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/24"}], [{"subnet": "2001:db8::/64"}]]},
}
PLUGINS: dict[str, dict[str, Any]] = {
    "bandwidth": {"capabilities": {"bandwidth": True}, "egressRate": 8_000_000, "ingressRate": 8_000_000},
    "tuning": {"capabilities": {"mac": True}, "sysctl": {"net.core.somaxconn": "500"}, "mtu": 1400, "promisc": True},
}
CHECKS = {
    "add-bad-prev-result-leaves-nothing",
    "add-late-failure-leaves-nothing",
    "add-leaves-other-containers",
    "add-mac",
    "add-mtu",
    "capability-bandwidth",
    "capability-mac",
    "capability-malformed",
    "check-after-add",
    "check-qdisc-missing",
    "containerd-go-field-names",
    "crio-check-after-every-add",
    "crio-large-burst",
    "del-corrupt-prev-result",
    "del-files-gone",
    "del-interface-gone-leaves-nothing",
    "del-netns-gone",
    "del-undoes-add",
    "gc-keeps-other-network",
    "gc-removes-stale",
    "nerdctl-del-before-add",
    "podman-clean-up",
    "prev-result-interfaces",
    "wrong-kinds-of-values",
}
"""The others are about `skel`, and the suite of the bridge has them."""
OPTIONS = CheckOptions(timeout=HANG, kills=10, killers=2)


def subject(plugin: str, bin_dir: Path) -> Subject:
    """The plugin behind a bridge, with files in a folder that each node has for itself."""
    files = {"dataDir": "/var/lib/cni/tuning"} if plugin == "tuning" else {}
    chain = [BRIDGE, {"type": plugin, **files, **PLUGINS[plugin]}]
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": chain})
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=Profile.CHAINED, only=[plugin])
    return found


@pytest.mark.mostly_slow(16, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("check", [check for check in all_checks() if check.id in CHECKS], ids=lambda check: check.id)
def test_conformance(check: Check, plugin: str, bin_dir: Path, tmp_path: Path) -> None:
    examined = subject(plugin, bin_dir)

    finding = run_check(check, examined, state_dir=tmp_path / "state", options=OPTIONS)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


@pytest.mark.slow("kills at many points; test_pods_crash kills an add in make test")
@pytest.mark.parametrize("plugin", PLUGINS)
def test_killed_adds_leave_nothing(plugin: str, direct_bin_dir: Path, tmp_path: Path) -> None:
    chaos = kill_adds(subject(plugin, direct_bin_dir), state_dir=tmp_path / "state", options=OPTIONS)

    assert chaos.leaks == []
