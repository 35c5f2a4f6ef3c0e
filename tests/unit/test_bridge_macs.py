"""The MACs that the bridge plugin makes up."""

import pytest

from plugins.attach.interface_config import random_mac


@pytest.mark.parametrize(
    "above",
    ["", "00:00:00:00:00:00", "00:11:22:33:44:55", "02:00:00:00:00:00", "b6:ff:ff:ff:ff:ff", "fe:fe:ff:ff:ff:ff"],
)
def test_a_ports_mac_is_above_its_bridges(above: str) -> None:
    """The bridge would take a lower one for its own."""
    macs = {random_mac(above) for _ in range(2000)}

    assert min(macs) > above
    assert len(macs) > 1990
    # Administered locally, and no group's.
    assert {int(mac[:2], 16) & 3 for mac in macs} == {2}
