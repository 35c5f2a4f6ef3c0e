"""Messages about links as bytes: the parts that several modules use.

Wire format: include/uapi/linux/rtnetlink.h and if_link.h; names are theirs. A test compares the messages with
pyroute2's own.
"""

import struct

from fast_stdlib.typing import Final
from netlink.namespace import Namespace
from netlink.wire import hardware_address, message, number, text

IFF_UP: Final = 0x1
IFF_PROMISC: Final = 0x100
IFF_ALLMULTI: Final = 0x200
IFNAME_LENGTH: Final = 15
"""Bytes in the longest name of a link; alternative names may be longer."""

RTM_NEWLINK: Final = 16
_RTM_DELLINK, _RTM_GETLINK = 17, 18
IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_LINK: Final = 5
IFLA_MASTER: Final = 10
IFLA_TXQLEN: Final = 13
IFLA_LINKINFO: Final = 18
IFLA_IFALIAS: Final = 20
IFLA_AF_SPEC: Final = 26
_IFLA_NET_NS_FD = 28
_IFLA_EXT_MASK = 29
IFLA_LINK_NETNSID: Final = 37
IFLA_ALT_IFNAME: Final = 53
IFLA_INFO_KIND: Final = 1
IFLA_INFO_DATA: Final = 2
IFLA_INFO_SLAVE_KIND: Final = 4
IFLA_INFO_SLAVE_DATA: Final = 5
_RTEXT_FILTER_SKIP_STATS = 1 << 3

IFINFOMSG: Final = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, ifindex, flags, which of the flags to change."""

_NO_STATISTICS = number(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS)


def get_link(name_or_ifindex: str | int) -> bytes:
    """Ask for one link, by ifindex, name or alternative name."""
    ifindex, name = _named(name_or_ifindex)
    return link_message(_RTM_GETLINK, name, _NO_STATISTICS, ifindex=ifindex)


def get_links(*, master: int = 0) -> bytes:
    """Ask for all links, or for the ports of `master`."""
    return link_message(_RTM_GETLINK, number(IFLA_MASTER, master) if master else b"", _NO_STATISTICS)


def delete_link(name_or_ifindex: str | int) -> bytes:
    """Delete a link, and with a veth its peer."""
    ifindex, name = _named(name_or_ifindex)
    return link_message(_RTM_DELLINK, name, ifindex=ifindex)


def change_link(  # noqa: PLR0913 - attributes that may change, each by its name
    ifindex: int,
    *,
    up: bool | None = None,
    promiscuous: bool | None = None,
    allmulticast: bool | None = None,
    mac: str = "",
    mtu: int = 0,
    tx_queue_len: int | None = None,
    alias: str | None = None,
    name: str = "",
    namespace: Namespace | None = None,
    master: int | None = None,
) -> bytes:
    """Change the given attributes; an alias is a text of at most 255 bytes that is only shown.

    `mtu` is in bytes, `tx_queue_len` in packets. `master` is the ifindex of the bridge or VRF that the link comes
    under, 0 for none.
    """
    flags = change = 0
    for wanted, bit in ((up, IFF_UP), (promiscuous, IFF_PROMISC), (allmulticast, IFF_ALLMULTI)):
        if wanted is not None:
            change |= bit
            flags |= bit if wanted else 0
    shown = b"" if alias is None else text(IFLA_IFALIAS, alias)
    queue = b"" if tx_queue_len is None else number(IFLA_TXQLEN, tx_queue_len)
    attributes = attributes_of_link(name=name, mtu=mtu, mac=mac, namespace=namespace)
    above = b"" if master is None else number(IFLA_MASTER, master)
    return link_message(RTM_NEWLINK, attributes, queue, shown, above, ifindex=ifindex, flags=flags, change=change)


def attributes_of_link(*, name: str, mtu: int, mac: str, namespace: Namespace | None) -> bytes:
    """Return the attributes that any link may have, of those that are given."""
    return b"".join(
        (
            text(IFLA_IFNAME, name) if name else b"",
            number(IFLA_MTU, mtu) if mtu else b"",
            hardware_address(IFLA_ADDRESS, mac) if mac else b"",
            number(_IFLA_NET_NS_FD, namespace.fd) if namespace else b"",
        )
    )


def link_message(
    kind: int, *attributes: bytes, ifindex: int = 0, nlm_flags: int = 0, flags: int = 0, change: int = 0
) -> bytes:
    """Return a message of type `kind` about a link; `change` says which of the `flags` (IFF_UP) are to change."""
    return message(kind, IFINFOMSG.pack(0, 0, ifindex, flags, change) + b"".join(attributes), nlm_flags)


def _named(name_or_ifindex: str | int) -> tuple[int, bytes]:
    if isinstance(name_or_ifindex, int):
        return name_or_ifindex, b""
    is_long = len(name_or_ifindex.encode()) > IFNAME_LENGTH
    return 0, text(IFLA_ALT_IFNAME if is_long else IFLA_IFNAME, name_or_ifindex)
