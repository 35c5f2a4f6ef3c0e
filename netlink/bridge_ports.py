"""The VLANs of bridges' ports."""

from collections.abc import Iterable

from netlink import messages
from netlink.codec import decode
from netlink.handle import Handle
from netlink.links import vlan_error
from netlink.socket import Frame, NetlinkError

__all__ = ["PortVerbs"]


class PortVerbs(Handle):
    """VLANs of bridge ports; each verb raises NetlinkError.

    That is VlanFilteringUnsupportedError where the kernel knows none on bridges.
    """

    def add_vlan(self, ifindex: int, vid: int, *, pvid: bool = False, untagged: bool = False) -> None:
        """Let VLAN `vid` through.

        `pvid`: frames without a tag that come in belong to it; `untagged`: its frames go out without a tag.
        """
        request = messages.change_vlan(ifindex, vid, pvid=pvid, untagged=untagged)
        try:
            self.execute([request], doing=f"add VLAN {vid} to link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None

    def add_vlans(self, ifindex: int, vids: Iterable[int]) -> None:
        """Let VLANs through, with their tags; this is one system call, however many they are."""
        requests = [messages.change_vlan(ifindex, first, through=last) for first, last in _ranges(vids)]
        try:
            self.execute(requests, doing=f"add VLANs to link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None

    def delete_vlan(self, ifindex: int, vid: int) -> None:
        """Let VLAN `vid` through no longer; that it did not is no error."""
        request = messages.change_vlan(ifindex, vid, delete=True)
        try:
            self.execute([request], doing=f"delete VLAN {vid} of link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None

    def vlans(self, ifindex: int) -> list[int]:
        """Return the VLAN IDs that a port lets through."""
        try:
            frames = self._socket.dump(messages.get_vlans(ifindex), doing=f"list the VLANs of link {ifindex}")
        except NetlinkError as error:
            raise vlan_error(error) from None
        return [vid for frame in frames for vid in _vlans(frame)]


def _ranges(vids: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each range of numbers that follow one another."""
    ranges: list[tuple[int, int]] = []
    for vid in sorted(vids):
        first = ranges.pop()[0] if ranges and ranges[-1][1] == vid - 1 else vid
        ranges.append((first, vid))
    return ranges


def _vlans(frame: Frame) -> list[int]:
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_msg

    vids: list[int] = []
    for name, entry in decode(br_vlan_msg, frame.encoded)["attrs"]:
        if name == "BRIDGE_VLANDB_ENTRY":
            first = entry.get_attr("BRIDGE_VLANDB_ENTRY_INFO")["vid"]
            last = entry.get_attr("BRIDGE_VLANDB_ENTRY_RANGE", first)
            vids += range(first, last + 1)
    return vids
