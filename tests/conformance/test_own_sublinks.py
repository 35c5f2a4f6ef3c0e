"""ipvlan and vlan: those of the suite's checks that concern their links, where the kernel has these."""

from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import checks
from harness.conformance.finding import Outcome
from harness.conformance.run import Extent, run_check
from tests.conformance.own import IPAM, interface_plugin, with_uplink
from tests.kernel import has_link_kind, lacking
from tests.nodes import Node

CHECKS = {check.id: check for check in checks()}

pytestmark = pytest.mark.sudo

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
    return with_uplink(tmp_path)


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("check", SAMPLE)
def test_conformance(check: str, plugin: str, node: Node, served_bin_dir: Path, tmp_path: Path, extent: Extent) -> None:
    if not has_link_kind(node, plugin, *OPTIONS[plugin]):
        lacking(plugin)

    examined = interface_plugin(plugin, PLUGINS[plugin], served_bin_dir)
    finding = run_check(CHECKS[check], examined, state_dir=tmp_path / "state", extent=extent)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail
