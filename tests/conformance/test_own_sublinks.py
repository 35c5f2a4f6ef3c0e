"""ipvlan and vlan: those of the suite's checks that concern their links, where the kernel has these."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import checks
from harness.conformance.finding import Outcome
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, run_check
from harness.conformance.subject import Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.kernel import has_link_kind, lacking
from tests.nodes import HANG, Node

CHECKS = {check.id: check for check in checks()}

pytestmark = pytest.mark.sudo

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/27"}], [{"subnet": "2001:db8::/64"}]]}
PLUGINS: dict[str, dict[str, Any]] = {
    "ipvlan": {"master": "uplink0", "ipam": IPAM},
    "vlan": {"master": "uplink0", "vlanId": 7, "ipam": IPAM},
}
OPTIONS = {"ipvlan": [], "vlan": ["id", "7"]}
# With one container each: a second one could not have the VLAN.
SAMPLE = (
    *(
        "add-makes-interface",
        "add-existing-interface",
        "add-late-failure-leaves-nothing",
        "delegate-failed-add-leaves-nothing",
    ),
    *("del-undoes-add", "del-twice", "del-netns-empty", "del-interface-gone-leaves-nothing", "del-without-prev-result"),
    *(
        "add-interfaces-exist",
        "add-addresses",
        "check-interface-down",
        "check-interface-other-mac",
        "check-address-missing",
    ),
)


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
    return Extent(timeout=HANG, preparation=program)


def subject(plugin: str, bin_dir: Path) -> Subject:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [{"type": plugin, **PLUGINS[plugin]}]})
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=Profile.INTERFACE, only=[plugin])
    return found


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("check", SAMPLE)
def test_conformance(check: str, plugin: str, node: Node, served_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    if not has_link_kind(node, plugin, *OPTIONS[plugin]):
        lacking(plugin)

    finding = run_check(CHECKS[check], subject(plugin, served_bin_dir), state_dir=tmp_path / "state", extent=extent)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail
