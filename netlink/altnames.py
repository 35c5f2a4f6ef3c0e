"""Alternative names of links (ip-link(8), `altname`): a link has any number of them, each of at most 127 bytes.

They go with the link into another network namespace, and a link is found by them as by its name. Since Linux 5.5.
Wire format: include/uapi/linux/rtnetlink.h and if_link.h; names are theirs.
"""

import errno

from netlink.link_wire import IFLA_ALT_IFNAME, link_message
from netlink.request import RtnlRequest, change
from netlink.wire import NLA_F_NESTED, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, nested, text

_RTM_NEWLINKPROP, _RTM_DELLINKPROP = 108, 109
_IFLA_PROP_LIST = 52


def add_altname(ifindex: int, name: str) -> RtnlRequest[bool]:
    """Ask for one more alternative name; the answer is False if a link, this one or another, has it already."""
    flags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND
    message = link_message(_RTM_NEWLINKPROP, _names(name), ifindex=ifindex, nlm_flags=flags)
    return change(message, f"give link {ifindex} the alternative name {name!r}", (errno.EEXIST,))


def delete_altname(ifindex: int, name: str) -> RtnlRequest[bool]:
    """Ask for an alternative name to be taken away; the answer is False if the link is gone or has no such name."""
    doing = f"take the alternative name {name!r} from link {ifindex}"
    message = link_message(_RTM_DELLINKPROP, _names(name), ifindex=ifindex)
    return change(message, doing, (errno.ENODEV, errno.ENOENT, errno.EINVAL))


def _names(name: str) -> bytes:
    # The kernel requires the flag in these requests; older ones work without it.
    return nested(_IFLA_PROP_LIST | NLA_F_NESTED, text(IFLA_ALT_IFNAME, name))
