"""Questions to the kernel by which a tool need not be started: it would have nothing to list.

Most namespaces of a conformance run are new ones. There a message takes a hundredth of a tool's time.
"""

from typing import Final

from netlink.netfilter import Netfilter
from netlink.nft_wire import encode_message
from netlink.request import RtnlSocket
from netlink.traffic_control import TCMSG
from netlink.wire import HEADER, message

_NFT_MSG_GETTABLE: Final = 1
_RTM_GETQDISC: Final = 38
_EVERY_FAMILY: Final = 0
_LOOPBACK: Final = "lo:"
_HEADER_LINES: Final = 2
"""Of /proc/net/dev (proc_pid_net(5))."""


def has_nft_tables() -> bool:
    """Tell whether the thread's namespace has tables of nftables: everything else of a ruleset is in one.

    Raises OSError, NetlinkError.
    """
    with Netfilter() as netfilter:
        return bool(netfilter.dump(encode_message(_NFT_MSG_GETTABLE, 0, _EVERY_FAMILY, []), doing="list tables"))


def has_qdiscs() -> bool:
    """Tell whether it has queueing disciplines with a handle: the kernel's own have none.

    Raises OSError, NetlinkError.
    """
    with RtnlSocket() as rtnl:
        found = rtnl.dump(message(_RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0)), doing="list qdiscs")
    handles = (TCMSG.unpack_from(frame.encoded, HEADER.size)[2] for frame in found)
    return any(handles)


def has_other_links() -> bool:
    """Tell whether it has links besides `lo`, which is no port and has no forwarding table. Raises OSError."""
    with open("/proc/thread-self/net/dev", encoding="utf-8", errors="surrogateescape") as devices:  # noqa: PTH123 -- a path of the kernel
        return any(not line.lstrip().startswith(_LOOPBACK) for line in devices.readlines()[_HEADER_LINES:])
