"""macvlan with dhcp: the checks of the suite that leases matter for, on nodes with a DHCP server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.node_setup import NODE_END
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.dhcp_servers import Daemon, running_daemon
from tests.nodes import HANG, Node

pytestmark = pytest.mark.sudo

CHOSEN = {
    "add-late-failure-leaves-nothing",
    "check-address-missing",
    "check-after-add",
    "check-later-address",
    "check-never-added",
    "check-reservation-missing",
    "containerd-stops",
    "crio-check-after-every-add",
    "del-after-failed-add",
    "del-files-gone",
    "del-netns-gone",
    "del-releases-address",
    "del-twice",
    "gc-keeps-other-network",
    "gc-keeps-valid",
    "gc-removes-stale",
    "gc-then-add",
    "nerdctl-namespace-of-process",
    "parallel-add",
    "status-ready",
}
"""macvlan with host-local has those that links matter for, in test_own_ptp_macvlan.py."""

ALONE = {
    *("add-prints-result", "check-after-add", "del-leaves-other-interface", "del-netns-gone", "del-undoes-add"),
    *("gc-keeps-every-interface", "gc-keeps-other-interface", "gc-keeps-second-interface", "gc-keeps-valid"),
    "parallel-add",
}
"""For dhcp without an interface plugin: the suite makes the interfaces."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, direct_bin_dir: Path) -> Iterator[Daemon]:
    """For all nodes: it finds pods by the paths of their network namespaces."""
    node = Node(tmp_path_factory.mktemp("daemon"))
    try:
        with running_daemon(node, direct_bin_dir, "-resendtimeout", "3s") as running:
            yield running
    finally:
        node.close()


@pytest.fixture
def options(tmp_path: Path) -> CheckOptions:
    """On each node there is an uplink, for a master, and a server behind it."""
    uplink = ("ip link add uplink0 type veth peer name uplink1", "ip link set uplink0 up", "ip link set uplink1 up")
    return CheckOptions(timeout=HANG, preparation=server("uplink1", tmp_path, *uplink), kills=10, killers=2)


def server(link: str, folder: Path, *commands: str) -> Path:
    """Write a program that starts a DHCP server at a link, after these commands."""
    program = folder / "server.sh"
    options = (
        f"--interface={link} --except-interface=lo --port=0 --conf-file --pid-file --no-ping --user=root",
        f"--dhcp-range=10.66.0.10,10.66.0.200,2m --dhcp-authoritative --dhcp-leasefile={folder}/leases",
    )
    address = f"ip address add 10.66.0.1/24 dev {link}"
    lines = ("#!/bin/sh -e", *commands, address, f"exec dnsmasq {' '.join(options)}")
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    return program


def test_all_chosen_checks_exist() -> None:
    assert {check.id for check in all_checks() if Profile.INTERFACE in check.profiles} >= CHOSEN
    assert {check.id for check in all_checks() if Profile.IPAM in check.profiles} >= ALONE


@pytest.mark.mostly_slow(16, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize("check", [check for check in all_checks() if check.id in CHOSEN], ids=lambda check: check.id)
def test_conformance(check: Check, direct_bin_dir: Path, tmp_path: Path, options: CheckOptions, daemon: Daemon) -> None:
    keys = {"type": "macvlan", "master": "uplink0", "ipam": daemon.ipam(), "capabilities": {"mac": True}}
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [keys]})
    (subject,) = subjects_of(
        parse_network_list(text.encode()), [direct_bin_dir], profile=Profile.INTERFACE, only=["macvlan"]
    )

    finding = run_check(check, subject, state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


@pytest.mark.parametrize("check", [check for check in all_checks() if check.id in ALONE], ids=lambda check: check.id)
def test_dhcp_alone_sends_through_the_interfaces_of_the_suite(
    check: Check, direct_bin_dir: Path, tmp_path: Path, daemon: Daemon
) -> None:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [{"type": "macvlan", "ipam": daemon.ipam()}]})
    (subject,) = subjects_of(parse_network_list(text.encode()), [direct_bin_dir], only=["dhcp"])
    options = CheckOptions(timeout=HANG, preparation=server(NODE_END, tmp_path), pod_interface=True)

    finding = run_check(check, subject, state_dir=tmp_path / "state", options=options)

    assert subject.profile is Profile.IPAM
    assert finding.outcome is Outcome.PASS, finding.detail
