"""Links: look them up, make bridges and veth pairs, change and delete them."""

import errno
import struct
from typing import NamedTuple

from netlink import messages
from netlink.attributes import items, uint32, values
from netlink.handle import Handle
from netlink.namespace import Namespace
from netlink.replies import HEADER
from netlink.socket import Frame, NetlinkError

__all__ = ["Link", "LinkVerbs", "VlanFilteringUnsupportedError"]

# include/uapi/linux/rtnetlink.h: struct ifinfomsg, with the index and the flags 4 bytes into it
_INDEX_AND_FLAGS = struct.Struct("=iI")
_BODY = HEADER.size + 16
# include/uapi/linux/if_link.h
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINK, _IFLA_MASTER = 1, 3, 4, 5, 10
_IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_IFALIAS, _IFLA_PROP_LIST, _IFLA_ALT_IFNAME = 16, 18, 20, 52, 53
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _IFLA_INFO_SLAVE_KIND, _IFLA_INFO_SLAVE_DATA = 1, 2, 4, 5
_IFLA_BR_VLAN_FILTERING = 7
_IFLA_BRPORT_MODE, _IFLA_BRPORT_ISOLATED = 4, 33
# include/uapi/linux/if.h, IF_OPER_*
_OPER_STATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")


class VlanFilteringUnsupportedError(NetlinkError):
    """The kernel was built without CONFIG_BRIDGE_VLAN_FILTERING."""


class Link(NamedTuple):
    """A link as it was when asked for."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    name: str
    mac: str
    mtu: int
    """Bytes."""
    kind: str
    """"bridge", "veth", …; "" for hardware and lo."""
    up: bool
    """Whether it was set up, whatever its carrier."""
    oper_state: str
    """"UP", "DOWN", "LOWERLAYERDOWN", "UNKNOWN", … (RFC 2863)."""
    promiscuous: bool
    """Whether it was set so; a bridge's ports are promiscuous without it."""
    master: int
    """Index of the bridge that it is a port of, or 0."""
    peer_index: int
    """Index of a veth's other end in the namespace that one is in, or 0."""
    alias: str
    altnames: tuple[str, ...]
    vlan_filtering: bool
    """Of a bridge."""
    hairpin: bool
    """Of a bridge's port, as is the next."""
    isolated: bool


class LinkVerbs(Handle):
    """Links; each verb raises NetlinkError, with ENODEV where the link is not there."""

    def link(self, name_or_index: str | int) -> Link | None:
        """Return the link of that name, alternative name or index, or None."""
        request = messages.get_link(name_or_index)
        try:
            return _link(self._socket.request(request, doing=f"look up link {name_or_index!r}"))
        except NetlinkError as error:
            if error.errno == errno.ENODEV:
                return None
            raise

    def links(self) -> list[Link]:
        """Return all links of the namespace."""
        return [_link(frame) for frame in self._socket.dump(messages.get_links(), doing="list links")]

    def links_of(self, master_index: int) -> list[Link]:
        """Return the ports of a bridge."""
        request = messages.get_links(master=master_index)
        frames = self._socket.dump(request, doing=f"list the ports of link {master_index}")
        return [_link(frame) for frame in frames]

    def create_bridge(self, name: str, *, mtu: int = 0, mac: str = "", vlan_filtering: bool = False) -> bool:
        """Make a bridge that is down; False, with nothing changed, when a link of that name exists.

        With `mac` the address stays; else it is random until there are ports, and then the lowest of theirs. `mtu` is
        in bytes, 0 for that of the ports. Raises VlanFilteringUnsupportedError, having made nothing.
        """
        request = messages.new_bridge(name, mtu=mtu, mac=mac, vlan_filtering=vlan_filtering)
        try:
            return self._tried(request, errno.EEXIST, doing=f"create bridge {name!r}")
        except NetlinkError as error:
            raise vlan_error(error) if vlan_filtering else error from None

    def create_veth(  # noqa: PLR0913 - what a link may be born with, each by its name
        self,
        name: str,
        *,
        peer_name: str,
        peer_namespace: Namespace,
        mtu: int = 0,
        mac: str = "",
        peer_mac: str = "",
        master: int = 0,
        up: bool = True,
        alias: str = "",
        hairpin: bool = False,
        isolated: bool = False,
    ) -> Link:
        """Make a veth pair, `name` here and `peer_name`, down, in `peer_namespace`; return the end that is here.

        It is a port of the bridge `master` (an index) from the start. MACs that are not given are random. Raises
        NetlinkError, having made nothing (EEXIST when either name is taken), unless the kernel's answer was lost
        (ENOBUFS, ENOMEM, ETIMEDOUT).
        """
        doing = f"create veth {name!r} with peer {peer_name!r}"
        request = messages.new_veth(
            name,
            peer_name=peer_name,
            peer_namespace=peer_namespace,
            mtu=mtu,
            mac=mac,
            peer_mac=peer_mac,
            master=master,
            up=up,
        )
        self.execute([request], doing=doing)
        # Not in the same send: had the name been taken, what follows would change somebody else's link.
        try:
            return self._finish_veth(name, alias=alias, hairpin=hairpin, isolated=isolated, doing=doing)
        except BaseException:
            self.delete_link(name)
            raise

    def set_up(self, index: int) -> None:
        """Set a link up."""
        self.execute([messages.change_link(index, up=True)], doing=f"set link {index} up")

    def set_down(self, index: int) -> None:
        """Set a link down."""
        self.execute([messages.change_link(index, up=False)], doing=f"set link {index} down")

    def set_mac(self, index: int, mac: str) -> None:
        """Give a link another MAC address."""
        self.execute([messages.change_link(index, mac=mac)], doing=f"set the address of link {index} to {mac}")

    def set_mtu(self, index: int, mtu: int) -> None:
        """Set the MTU, in bytes."""
        self.execute([messages.change_link(index, mtu=mtu)], doing=f"set the MTU of link {index} to {mtu}")

    def set_promiscuous(self, index: int, on: bool) -> None:  # noqa: FBT001 - a setter's value
        """Let a link take frames that are not for it, or not."""
        request = messages.change_link(index, promiscuous=on)
        self.execute([request], doing=f"set link {index} promiscuous {'on' if on else 'off'}")

    def delete_link(self, name_or_index: str | int) -> bool:
        """Delete a link; False when it was not there."""
        request = messages.delete_link(name_or_index)
        return self._tried(request, errno.ENODEV, doing=f"delete link {name_or_index!r}")

    def _finish_veth(self, name: str, *, alias: str, hairpin: bool, isolated: bool, doing: str) -> Link:
        made = _link(self._socket.request(messages.get_link(name), doing=doing))
        changes = []
        if alias:
            changes.append(messages.change_link(made.index, alias=alias))
        if hairpin or isolated:
            changes.append(messages.change_port(made.index, hairpin=hairpin, isolated=isolated))
        self.execute(changes, doing=doing)
        return made._replace(alias=alias, hairpin=hairpin, isolated=isolated)


def vlan_error(error: NetlinkError) -> NetlinkError:
    """Return what to raise for `error` of a request that is about VLANs."""
    # The kernel's stubs say EOPNOTSUPP and no more; a text with it is about something else.
    if error.errno != errno.EOPNOTSUPP or error.explained:
        return error
    return VlanFilteringUnsupportedError(
        errno.EOPNOTSUPP,
        f"{error.strerror}: this kernel has no VLAN filtering on bridges (CONFIG_BRIDGE_VLAN_FILTERING)",
    )


def _link(frame: Frame) -> Link:
    index, flags = _INDEX_AND_FLAGS.unpack_from(frame.encoded, HEADER.size + 4)
    attribute = values(frame.encoded, _BODY).get
    linkinfo = values(attribute(_IFLA_LINKINFO, b""))
    kind = _text(linkinfo.get(_IFLA_INFO_KIND, b""))
    bridge = values(linkinfo.get(_IFLA_INFO_DATA, b"")) if kind == "bridge" else {}
    is_port = _text(linkinfo.get(_IFLA_INFO_SLAVE_KIND, b"")) == "bridge"
    port = values(linkinfo.get(_IFLA_INFO_SLAVE_DATA, b"")) if is_port else {}
    altnames = items(attribute(_IFLA_PROP_LIST, b""))
    return Link(
        index=index,
        name=_text(attribute(_IFLA_IFNAME, b"")),
        mac=attribute(_IFLA_ADDRESS, b"").hex(":"),
        mtu=uint32(attribute(_IFLA_MTU)),
        kind=kind,
        up=bool(flags & messages.IFF_UP),
        oper_state=_OPER_STATES[attribute(_IFLA_OPERSTATE, b"\0")[0]],
        promiscuous=bool(flags & messages.IFF_PROMISC),
        master=uint32(attribute(_IFLA_MASTER)),
        peer_index=uint32(attribute(_IFLA_LINK)),
        alias=_text(attribute(_IFLA_IFALIAS, b"")),
        altnames=tuple(_text(name) for number, name in altnames if number == _IFLA_ALT_IFNAME),
        vlan_filtering=any(bridge.get(_IFLA_BR_VLAN_FILTERING, b"")),
        hairpin=any(port.get(_IFLA_BRPORT_MODE, b"")),
        isolated=any(port.get(_IFLA_BRPORT_ISOLATED, b"")),
    )


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")
