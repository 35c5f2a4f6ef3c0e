"""The bridge plugin's reading of its configuration, before it touches the kernel."""

from typing import Any

import pytest

from plugins.bridge.config import BridgeConfig
from skel import CniError, Code


def config(**keys: Any) -> BridgeConfig:
    return BridgeConfig.decode({"cniVersion": "1.1.0", "name": "net", "type": "bridge"} | keys)


@pytest.mark.parametrize(
    ("trunk", "vlans"),
    [
        (None, []),
        ([], []),
        ([{"id": 101}], [101]),
        ([{"minID": 200, "maxID": 202}, {"id": 201}, {"ID": 7}], [7, 200, 201, 202]),
        ([{"minID": 4094, "maxID": 4094, "id": 1}], [1, 4094]),
    ],
)
def test_trunk(trunk: object, vlans: list[int]) -> None:
    assert config(vlanTrunk=trunk).trunk_vlans() == vlans


@pytest.mark.parametrize("trunk", [{"minID": 1}, {"maxID": 1}, {"minID": 2, "maxID": 1}, {"id": 5, "minID": 1}])
def test_incomplete_vlan_trunk_range_is_refused(trunk: dict[str, int]) -> None:
    with pytest.raises(CniError, match=r"vlanTrunk\[1\]: expected minID and maxID together") as caught:
        config(vlanTrunk=[{"id": 1}, trunk]).check_for_add()

    assert caught.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize(
    "keys", [{"vlan": -1}, {"vlan": 4095}, {"vlanTrunk": [{"id": 0}]}, {"vlanTrunk": [{"maxID": 4095}]}]
)
def test_invalid_vlan_ids_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(CniError, match="expected a VLAN ID from") as caught:
        config(**keys)

    assert caught.value.code == Code.INVALID_CONFIG


@pytest.mark.parametrize(
    "keys",
    [{"hairpinMode": True, "promiscMode": True}, {"disableContainerInterface": True, "ipam": {"type": "host-local"}}],
)
def test_keys_that_exclude_each_other(keys: dict[str, Any]) -> None:
    with pytest.raises(CniError, match="exclude each other") as caught:
        config(**keys).check_for_add()

    assert caught.value.code == Code.INVALID_CONFIG


def test_the_capability_counts_before_args_before_cni_args() -> None:
    asked = {"runtimeConfig": {"mac": "02-00-00-00-00-0A"}, "args": {"cni": {"mac": "0200.0000.000b"}}}
    cni_args = {"MAC": "02:00:00:00:00:0C"}

    assert config(**asked).requested_mac(cni_args) == "02:00:00:00:00:0a"
    assert config(args=asked["args"]).requested_mac(cni_args) == "02:00:00:00:00:0b"
    assert config().requested_mac(cni_args) == "02:00:00:00:00:0c"
    assert config(runtimeConfig={"mac": ""}, args={"cni": None}).requested_mac({"MAC": ""}) == ""
