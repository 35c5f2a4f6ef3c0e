"""The VLANs of bridges' ports."""

from _socket import AF_BRIDGE

from lean.typing import Iterable, NamedTuple
from netlink.codec import build, decode
from netlink.links import vlan_error
from netlink.request import RtnlSocket, change
from netlink.wire import Frame, NetlinkError

# include/uapi/linux/rtnetlink.h and if_bridge.h
_RTM_DELLINK, _RTM_SETLINK, _RTM_GETVLAN = 17, 19, 114
_BRIDGE_FLAGS_MASTER = 1
_BRIDGE_VLAN_INFO_PVID, _BRIDGE_VLAN_INFO_UNTAGGED = 1 << 1, 1 << 2
_BRIDGE_VLAN_INFO_RANGE_BEGIN, _BRIDGE_VLAN_INFO_RANGE_END = 1 << 3, 1 << 4


class PortVlans(NamedTuple):
    """The VLANs of a bridge's port."""

    passed: list[int]
    """The IDs of those that it lets through."""
    native: int = 0
    """The VLAN of frames that come in without a tag; 0 if they are dropped."""


class PortVerbs(RtnlSocket):
    """VLANs of bridge ports; each verb raises NetlinkError.

    It is VlanFilteringUnsupportedError if the kernel has no VLANs on bridges.
    """

    def add_vlan(self, ifindex: int, vid: int, *, pvid: bool = False, untagged: bool = False) -> None:
        """Let VLAN `vid` through.

        `pvid`: frames that come in without a tag belong to it. `untagged`: its frames go out without a tag.
        """
        self._change(change_vlan(ifindex, vid, pvid=pvid, untagged=untagged), doing=f"add VLAN {vid} to link {ifindex}")

    def add_vlans(self, ifindex: int, vids: Iterable[int]) -> None:
        """Let VLANs through, with their tags, in one system call."""
        requests = [change_vlan(ifindex, first, through=last) for first, last in _ranges(vids)]
        self._change(*requests, doing=f"add VLANs to link {ifindex}")

    def delete_vlan(self, ifindex: int, vid: int) -> None:
        """Block VLAN `vid`; no error if it is blocked already."""
        self._change(change_vlan(ifindex, vid, delete=True), doing=f"delete VLAN {vid} of link {ifindex}")

    def vlans(self, ifindex: int) -> PortVlans:
        """Return the VLANs that a port lets through."""
        try:
            frames = self.dump(get_vlans(ifindex), doing=f"list the VLANs of link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None
        return _vlans(frames)

    def _change(self, *messages: bytes, doing: str) -> None:
        try:
            self.send(*(change(each, doing) for each in messages))
        except NetlinkError as error:
            raise vlan_error(error) from None


def change_vlan(
    ifindex: int,
    vid: int,
    *,
    through: int = 0,
    pvid: bool = False,
    untagged: bool = False,
    delete: bool = False,
) -> bytes:
    """Add or delete VLAN `vid`, or all from `vid` through `through`, of a port."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    flags = (_BRIDGE_VLAN_INFO_PVID if pvid else 0) | (_BRIDGE_VLAN_INFO_UNTAGGED if untagged else 0)
    if through > vid:
        vlans = [
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_BEGIN, "vid": vid},
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_END, "vid": through},
        ]
    else:
        vlans = [{"flags": flags, "vid": vid}]
    attributes: list[tuple[str, object]] = [("IFLA_BRIDGE_FLAGS", _BRIDGE_FLAGS_MASTER)]
    attributes += [("IFLA_BRIDGE_VLAN_INFO", vlan) for vlan in vlans]
    kind = _RTM_DELLINK if delete else _RTM_SETLINK
    return build(ifinfmsg, kind, [("IFLA_AF_SPEC", {"attrs": attributes})], family=AF_BRIDGE, index=ifindex)


def get_vlans(ifindex: int) -> bytes:
    """Ask for the VLANs of one port."""
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_query

    return build(br_vlan_query, _RTM_GETVLAN, family=AF_BRIDGE, ifindex=ifindex)


def _ranges(vids: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each range of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for vid in sorted(vids):
        first = ranges.pop()[0] if ranges and ranges[-1][1] == vid - 1 else vid
        ranges.append((first, vid))
    return ranges


def _vlans(frames: Iterable[Frame]) -> PortVlans:
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_msg

    passed: list[int] = []
    native = 0
    for frame in frames:
        for name, entry in decode(br_vlan_msg, frame.encoded)["attrs"]:
            if name == "BRIDGE_VLANDB_ENTRY":
                first = entry.get_attr("BRIDGE_VLANDB_ENTRY_INFO")
                passed += range(first["vid"], entry.get_attr("BRIDGE_VLANDB_ENTRY_RANGE", first["vid"]) + 1)
                native = first["vid"] if first["flags"] & _BRIDGE_VLAN_INFO_PVID else native
    return PortVlans(passed, native)
