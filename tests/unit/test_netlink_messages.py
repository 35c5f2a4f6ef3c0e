"""Requests that not every kernel can carry out, byte by byte against include/uapi/linux/if_bridge.h and if_link.h."""

import struct
from socket import AF_BRIDGE

import pytest

from netlink.bridge_ports import _ranges, _vlans, change_vlan, get_vlans
from netlink.wire import Frame

RTM_SETLINK, RTM_DELLINK, RTM_GETVLAN, RTM_NEWVLAN = 19, 17, 114, 112
IFLA_AF_SPEC = 26
IFLA_BRIDGE_FLAGS, IFLA_BRIDGE_VLAN_INFO = 0, 2
BRIDGE_FLAGS_MASTER = 1
PVID, UNTAGGED, RANGE_BEGIN, RANGE_END = 0x2, 0x4, 0x8, 0x10
BRIDGE_VLANDB_ENTRY, BRIDGE_VLANDB_ENTRY_INFO, BRIDGE_VLANDB_ENTRY_RANGE = 1, 1, 2


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def parts(message: bytes) -> tuple[int, bytes]:
    """The message's type, and its body behind the netlink header."""
    return struct.unpack_from("=H", message, 4)[0], message[16:]


def port_request(index: int, *vlans: tuple[int, int]) -> bytes:
    spec = attribute(IFLA_BRIDGE_FLAGS, struct.pack("=H", BRIDGE_FLAGS_MASTER))
    spec += b"".join(attribute(IFLA_BRIDGE_VLAN_INFO, struct.pack("=HH", *vlan)) for vlan in vlans)
    return struct.pack("=BxHiII", AF_BRIDGE, 0, index, 0, 0) + attribute(IFLA_AF_SPEC, spec)


@pytest.mark.parametrize(
    ("message", "kind", "body"),
    [
        (change_vlan(7, 5), RTM_SETLINK, port_request(7, (0, 5))),
        (
            change_vlan(7, 5, pvid=True, untagged=True),
            RTM_SETLINK,
            port_request(7, (PVID | UNTAGGED, 5)),
        ),
        (
            change_vlan(7, 10, through=20, untagged=True),
            RTM_SETLINK,
            port_request(7, (UNTAGGED | RANGE_BEGIN, 10), (UNTAGGED | RANGE_END, 20)),
        ),
        (change_vlan(7, 10, through=10), RTM_SETLINK, port_request(7, (0, 10))),
        (change_vlan(7, 5, delete=True), RTM_DELLINK, port_request(7, (0, 5))),
        (get_vlans(7), RTM_GETVLAN, struct.pack("=B3xi", AF_BRIDGE, 7)),
    ],
)
def test_vlan_requests(message: bytes, kind: int, body: bytes) -> None:
    assert (kind, body) == parts(message)


@pytest.mark.parametrize(
    ("vids", "ranges"),
    [
        ([], []),
        ([5], [(5, 5)]),
        ([1, 2, 3], [(1, 3)]),
        ([12, 10, 11, 20, 4094, 4093], [(10, 12), (20, 20), (4093, 4094)]),
        ([vid for vid in range(1, 4095) if vid != 100], [(1, 99), (101, 4094)]),
    ],
)
def test_vlans_are_folded_into_ranges(vids: list[int], ranges: list[tuple[int, int]]) -> None:
    assert _ranges(vids) == ranges


def test_vlan_listing_unfolds_ranges() -> None:
    single = attribute(BRIDGE_VLANDB_ENTRY_INFO, struct.pack("=HH", PVID | UNTAGGED, 1))
    folded = attribute(BRIDGE_VLANDB_ENTRY_INFO, struct.pack("=HH", 0, 10))
    folded += attribute(BRIDGE_VLANDB_ENTRY_RANGE, struct.pack("=H", 12))
    body = struct.pack("=B3xi", AF_BRIDGE, 7)
    body += attribute(BRIDGE_VLANDB_ENTRY | 0x8000, single) + attribute(BRIDGE_VLANDB_ENTRY | 0x8000, folded)
    message = struct.pack("=IHHII", 16 + len(body), RTM_NEWVLAN, 2, 1, 0) + body

    assert _vlans([Frame(RTM_NEWVLAN, 2, 1, message)]) == ([1, 10, 11, 12], 1)
