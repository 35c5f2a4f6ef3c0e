"""Links: look them up, make them, change, rename, move and delete them."""

import errno
from _socket import AF_INET

from fast_stdlib.typing import Any, Sequence
from netlink import kinds, link_wire
from netlink.link import Link, find_link, link_in
from netlink.link_wire import attributes_of_link, change_link, delete_link, get_links, link_message
from netlink.namespace import Namespace
from netlink.namespace_ids import give_namespace_id
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.wire import NLM_F_CREATE, NLM_F_EXCL, NetlinkError, attribute, nested, number, text

_IFLA_INET_CONF = 1
_IPV4_DEVCONF_ARP_NOTIFY = 22  # include/uapi/linux/ip.h


class VlanFilteringUnsupportedError(NetlinkError):
    """The kernel was built without CONFIG_BRIDGE_VLAN_FILTERING."""


class LinkVerbs(RtnlSocket):
    """Links; each verb raises NetlinkError, ENODEV if the link is missing."""

    def link(self, name_or_ifindex: str | int) -> Link | None:
        """Return the link of that name, alternative name or ifindex, or None."""
        return self._asked(find_link(name_or_ifindex))

    def links(self) -> list[Link]:
        """Return all links of the namespace."""
        return [link_in(frame) for frame in self.dump(get_links(), doing="list links")]

    def links_of(self, master_ifindex: int) -> list[Link]:
        """Return the ports of a bridge."""
        request = get_links(master=master_ifindex)
        frames = self.dump(request, doing=f"list the ports of link {master_ifindex}")
        return [link_in(frame) for frame in frames]

    def create_link(  # noqa: PLR0913 - the attributes of a new link, each by its name
        self,
        kind: str,
        name: str,
        *,
        data: bytes = b"",
        link: int = 0,
        link_namespace: Namespace | None = None,
        master: int = 0,
        mtu: int = 0,
        mac: str = "",
        namespace: Namespace | None = None,
        up: bool = False,
        looks: Sequence[RtnlRequest[Any]] = (),
    ) -> bool:
        """Make a link of a kind ("macvlan", "dummy"); False, having changed nothing, if a link of that name exists.

        `data` is the kind's settings (`netlink.kinds`), `link` the ifindex of the link below (a macvlan's parent),
        `master` that of the bridge above, `mtu` in bytes. Without `mac` the MAC is random. `looks` are sent along.

        With `namespace` the link is made there, and `link` is here. Older kernels also refuse a name that is taken
        here: choose a free one, and `rename` the link over there. With `link_namespace` the link is made here, and
        `link` is in that namespace, which gets a number here.
        """
        netnsid = self._netnsid(link_namespace) if link_namespace else None
        request = new_link(
            kind,
            name,
            data=data,
            link=link,
            link_netnsid=netnsid,
            master=master,
            mtu=mtu,
            mac=mac,
            namespace=namespace,
            up=up,
        )
        making = change(request, f"create {kind} {name!r}", (errno.EEXIST,))
        self.send(making, *looks)
        return making.answer

    def create_bridge(
        self,
        name: str,
        *,
        mtu: int = 0,
        mac: str = "",
        vlan_filtering: bool = False,
        up: bool = False,
        looks: Sequence[RtnlRequest[Any]] = (),
    ) -> bool:
        """Make a bridge, as `create_link` does; False, having changed nothing, if a link of that name exists.

        With `mac` the address stays; else it is random until there are ports, and then the lowest of theirs. `mtu` is
        in bytes, 0 for that of the ports. Raises VlanFilteringUnsupportedError, having made nothing.
        """
        data = kinds.bridge(vlan_filtering=vlan_filtering)
        try:
            return self.create_link("bridge", name, data=data, mtu=mtu, mac=mac, up=up, looks=looks)
        except NetlinkError as error:
            raise vlan_error(error) if vlan_filtering else error from None

    def create_veth(  # noqa: PLR0913 - the attributes of a new link, each by its name
        self,
        name: str,
        *,
        peer_name: str,
        peer_namespace: Namespace,
        kind: str = "veth",
        mtu: int = 0,
        mac: str = "",
        peer_mac: str = "",
        master: int = 0,
        up: bool = True,
        alias: str = "",
        hairpin: bool = False,
        isolated: bool = False,
        looks: Sequence[RtnlRequest[Any]] = (),
    ) -> Link:
        """Make a veth pair, `name` here and `peer_name`, down, in `peer_namespace`; return the end that is here.

        With `kind` "netkit" it is a netkit pair; Linux before 6.7 has none, before 6.12 none with a MAC (EOPNOTSUPP).
        It is a port of the bridge `master` (an ifindex) from the start. Without `mac` and `peer_mac` the MACs are
        random. `looks` are sent along with the last change. Raises NetlinkError, having made nothing (EEXIST if either
        name is taken), unless the kernel's answer was lost (ENOBUFS, ENOMEM, ETIMEDOUT).
        """
        doing = f"create {kind} {name!r} with peer {peer_name!r}"
        settings = kinds.netkit if kind == "netkit" else kinds.veth
        data = settings(peer_name=peer_name, peer_namespace=peer_namespace, peer_mac=peer_mac, peer_mtu=mtu)
        request = new_link(kind, name, data=data, mtu=mtu, mac=mac, master=master, up=up)
        found = find_link(name)
        self.send(change(request, doing), found)
        made = found.answer
        if made is None:
            raise NetlinkError(errno.ENODEV, f"{doing}: it is gone")
        # In a second send: if the name is taken, these would change the link that has it.
        changes = []
        if alias:
            changes.append(change(change_link(made.ifindex, alias=alias), doing))
        if hairpin or isolated:
            port = change_port(made.ifindex, hairpin=hairpin, isolated=isolated)
            changes.append(change(port, doing))
        try:
            self.send(*changes, *looks)
        except BaseException:
            self.delete_link(name)
            raise
        # Older kernels leave the peer's ifindex out if it equals this one.
        peer_ifindex = made.peer_ifindex or made.ifindex
        details = made.details._replace(hairpin=hairpin, isolated=isolated) if hairpin or isolated else made.details
        return made._replace(peer_ifindex=peer_ifindex, alias=alias, details=details)

    def set_up(self, ifindex: int) -> None:
        """Set a link up."""
        self.send(set_up(ifindex))

    def set_down(self, ifindex: int) -> None:
        """Set a link down."""
        self._tried(change_link(ifindex, up=False), doing=f"set link {ifindex} down")

    def set_mac(self, ifindex: int, mac: str) -> None:
        """Give a link another MAC address."""
        self._tried(change_link(ifindex, mac=mac), doing=f"set the address of link {ifindex} to {mac}")

    def set_mtu(self, ifindex: int, mtu: int) -> None:
        """Set the MTU, in bytes."""
        self._tried(change_link(ifindex, mtu=mtu), doing=f"set the MTU of link {ifindex} to {mtu}")

    def set_promiscuous(self, ifindex: int, on: bool) -> None:  # noqa: FBT001 - a setter's value
        """Set whether a link takes frames for other MACs."""
        request = change_link(ifindex, promiscuous=on)
        self._tried(request, doing=f"set link {ifindex} promiscuous {'on' if on else 'off'}")

    def set_alias(self, ifindex: int, alias: str) -> None:
        """Give a link a text of at most 255 bytes that is only shown."""
        self._tried(change_link(ifindex, alias=alias), doing=f"set the alias of link {ifindex}")

    def set_master(self, ifindex: int, master: int) -> None:
        """Put a link under the bridge or VRF of that ifindex; 0 takes it out. A VRF's takes it down and up again."""
        self._tried(change_link(ifindex, master=master), doing=f"set the master of link {ifindex} to {master}")

    def set_port(self, ifindex: int, *, hairpin: bool, isolated: bool) -> None:
        """Set a bridge port's hairpin mode, and its isolation from other isolated ports."""
        request = change_port(ifindex, hairpin=hairpin, isolated=isolated)
        self._tried(request, doing=f"set up bridge port {ifindex}")

    def rename(self, ifindex: int, name: str) -> None:
        """Give a link another name. Before Linux 6.2 it must be down (EBUSY). Raises NetlinkError: EEXIST."""
        self._tried(change_link(ifindex, name=name), doing=f"rename link {ifindex} to {name!r}")

    def move_link(self, ifindex: int, namespace: Namespace, name: str = "") -> None:
        """Move a link, which goes down, into another network namespace, and give it `name` there.

        Raises NetlinkError: EEXIST if a link there has the name; the link may have moved by then.
        """
        request = change_link(ifindex, name=name, namespace=namespace)
        self._tried(request, doing=f"move link {ifindex} to {namespace.path}")

    def delete_link(self, name_or_ifindex: str | int) -> bool:
        """Delete a link; False if it is missing."""
        return self._tried(delete_link(name_or_ifindex), errno.ENODEV, doing=f"delete link {name_or_ifindex!r}")

    def _netnsid(self, other: Namespace) -> int:
        giving, asking = give_namespace_id(other)
        self.send(giving, asking)
        return asking.answer


def set_up(ifindex: int) -> RtnlRequest[bool]:
    """Ask for a link to be set up."""
    return change(change_link(ifindex, up=True), f"set link {ifindex} up")


def notify_by_arp(ifindex: int) -> bytes:
    """Have a link tell its neighbours (gratuitous ARP) when it comes up and when its MAC is set: `arp_notify`."""
    settings = nested(AF_INET, nested(_IFLA_INET_CONF, number(_IPV4_DEVCONF_ARP_NOTIFY, 1)))
    return link_message(link_wire.RTM_NEWLINK, nested(link_wire.IFLA_AF_SPEC, settings), ifindex=ifindex)


def new_link(  # noqa: PLR0913 - the attributes of a new link, each by its name
    kind: str,
    name: str,
    *,
    data: bytes = b"",
    link: int = 0,
    link_netnsid: int | None = None,
    master: int = 0,
    mtu: int = 0,
    mac: str = "",
    namespace: Namespace | None = None,
    up: bool = False,
) -> bytes:
    """Make a link, as `create_link` does. The kernel would ignore an alias or settings of a bridge's port."""
    settings = attribute(link_wire.IFLA_INFO_DATA, data) if data else b""
    return link_message(
        link_wire.RTM_NEWLINK,
        attributes_of_link(name=name, mtu=mtu, mac=mac, namespace=namespace),
        number(link_wire.IFLA_LINK, link) if link else b"",
        number(link_wire.IFLA_LINK_NETNSID, link_netnsid) if link_netnsid is not None else b"",
        number(link_wire.IFLA_MASTER, master) if master else b"",
        nested(link_wire.IFLA_LINKINFO, text(link_wire.IFLA_INFO_KIND, kind), settings),
        nlm_flags=NLM_F_CREATE | NLM_F_EXCL,
        flags=link_wire.IFF_UP if up else 0,
        change=link_wire.IFF_UP if up else 0,
    )


def change_port(ifindex: int, *, hairpin: bool, isolated: bool) -> bytes:
    """Change the settings of a bridge's port."""
    # RTM_SETLINK would ignore these, and return no error.
    settings = nested(link_wire.IFLA_INFO_SLAVE_DATA, kinds.bridge_port(hairpin=hairpin, isolated=isolated))
    return link_message(
        link_wire.RTM_NEWLINK,
        nested(link_wire.IFLA_LINKINFO, text(link_wire.IFLA_INFO_SLAVE_KIND, "bridge"), settings),
        ifindex=ifindex,
    )


def vlan_error(error: NetlinkError) -> NetlinkError:
    """Return the error to raise for `error` of a request that is about VLANs."""
    # The kernel's stubs return EOPNOTSUPP without a text; a text means another reason.
    if error.errno != errno.EOPNOTSUPP or error.explained:
        return error
    return VlanFilteringUnsupportedError(
        errno.EOPNOTSUPP,
        f"{error.strerror}: this kernel has no VLAN filtering on bridges (CONFIG_BRIDGE_VLAN_FILTERING)",
    )
