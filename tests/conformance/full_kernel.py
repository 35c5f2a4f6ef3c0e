"""Plugins whose links small kernels lack, each in the list with which the suite examines it."""

import json
from pathlib import Path
from typing import Any, Final

from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.own import IPAM
from tests.kernel import has_link_kind, lacking
from tests.nodes import Node

_CAPABILITIES: Final = dict.fromkeys(("ips", "ipRanges"), True)
_MAC: Final = {"mac": True}
_ON_UPLINK: Final[dict[str, Any]] = {"master": "uplink0", "ipam": IPAM, "capabilities": _CAPABILITIES}
_VLAN: Final[dict[str, Any]] = _ON_UPLINK | {"type": "vlan", "vlanId": 7, "capabilities": _CAPABILITIES | _MAC}
_DUMMY: Final[dict[str, Any]] = {"type": "dummy", "ipam": IPAM, "capabilities": _CAPABILITIES | _MAC}
_BRIDGE: Final[dict[str, Any]] = {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": IPAM}
_LISTS: Final[dict[str, list[dict[str, Any]]]] = {
    **{f"ipvlan-{mode}": [{"type": "ipvlan", "mode": mode, **_ON_UPLINK}] for mode in ("l2", "l3", "l3s")},
    "vlan": [_VLAN],
    "dummy": [_DUMMY],
    "vrf": [_BRIDGE, {"type": "vrf", "vrfname": "red"}],
}
_OPTIONS: Final = {"vlan": ("id", "7"), "vrf": ("table", "7")}
PROFILES: Final = {name: Profile.CHAINED if len(plugins) > 1 else Profile.INTERFACE for name, plugins in _LISTS.items()}
"""The names of the lists, and the profile of the plugin that is examined: the last one."""


def subject(name: str, bin_dir: Path, subnet: str = "10.66.0.0/27") -> Subject:
    """Few addresses can be used up; killed ADDs keep some until GC, and need more."""
    network = {"cniVersion": "1.1.0", "name": "own", "plugins": _LISTS[name]}
    text = json.dumps(network).replace("10.66.0.0/27", subnet)
    said = None if PROFILES[name] is Profile.CHAINED else PROFILES[name]
    only = [_LISTS[name][-1]["type"]]
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=said, only=only)
    return found


def require_kind(name: str, node: Node) -> None:
    """Skip the test if the kernel lacks the plugin's links."""
    kind = str(_LISTS[name][-1]["type"])
    if not has_link_kind(node, kind, *_OPTIONS.get(kind, ())):
        lacking(kind)
