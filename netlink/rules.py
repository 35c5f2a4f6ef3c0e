"""Rules of policy routing (ip-rule(8)): which routing table a packet's route is looked up in.

Wire format: include/uapi/linux/fib_rules.h; names are its own. A test compares the messages with pyroute2's own.
"""

import errno
import struct
from _socket import AF_INET, AF_INET6

from fast_stdlib.typing import NamedTuple
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.routes import RT_TABLE_COMPAT, RT_TABLE_MAIN, Network, network_of
from netlink.wire import HEADER, NLM_F_CREATE, NLM_F_EXCL, attribute, message, number, uint32, values

_RTM_NEWRULE, _RTM_DELRULE, _RTM_GETRULE = 32, 33, 34
_FRA_SRC, _FRA_PRIORITY, _FRA_TABLE = 2, 6, 15
_FR_ACT_TO_TBL = 1
# struct fib_rule_hdr: family, dst_len, src_len, tos, table, two reserved bytes, action, flags
_FIB_RULE_HDR = struct.Struct("=8BI")
_IPV4 = 4


class Rule(NamedTuple):
    """A rule that looks packets up in a table, by the network that they come from."""

    src: Network | None
    """None for a rule that does not ask for it."""
    table: int
    priority: int = 0
    """The lower the earlier; 0 in a new rule: before all others but the kernel's first one."""


def list_rules(rtnl: RtnlSocket) -> list[Rule]:
    """Return the rules of both families that name a table, in the kernel's order. Raises NetlinkError."""
    found = []
    for family in (AF_INET, AF_INET6):
        request = message(_RTM_GETRULE, _FIB_RULE_HDR.pack(family, *bytes(7), 0))
        frames = rtnl.dump(request, doing="list rules")
        found += [rule for frame in frames if (rule := rule_in(frame.encoded)) is not None]
    return found


def add_rule(src: Network, table: int) -> RtnlRequest[bool]:
    """Ask for a rule before all others; the kernel refuses an equal one (EEXIST)."""
    encoded = message(_RTM_NEWRULE, _body(Rule(src, table)), NLM_F_CREATE | NLM_F_EXCL)
    return change(encoded, f"add rule from {src} to table {table}")


def delete_rule(rule: Rule) -> RtnlRequest[bool]:
    """Ask for the deletion of a rule of `list_rules`, or of the first with its `src` and `table`; False if missing."""
    doing = f"delete rule from {rule.src} to table {rule.table}"
    return change(message(_RTM_DELRULE, _body(rule)), doing, (errno.ENOENT,))


def rule_in(encoded: bytes) -> Rule | None:
    """Return the rule in an RTM_NEWRULE message, or None for one that refuses packets."""
    family, _, length, _, table, _, _, action, _ = _FIB_RULE_HDR.unpack_from(encoded, HEADER.size)
    if action != _FR_ACT_TO_TBL:
        return None
    found = values(encoded, HEADER.size + _FIB_RULE_HDR.size)
    src = network_of(family, found[_FRA_SRC], length) if _FRA_SRC in found else None
    return Rule(src, uint32(found.get(_FRA_TABLE)) or table, uint32(found.get(_FRA_PRIORITY)))


def _body(rule: Rule) -> bytes:
    src = rule.src
    if src is None:
        raise ValueError(rule)
    family = AF_INET if src.version == _IPV4 else AF_INET6
    table = rule.table if rule.table <= RT_TABLE_MAIN else RT_TABLE_COMPAT
    return b"".join(
        (
            _FIB_RULE_HDR.pack(family, 0, src.prefixlen, 0, table, 0, 0, _FR_ACT_TO_TBL, 0),
            attribute(_FRA_SRC, src.network_address.packed),
            number(_FRA_PRIORITY, rule.priority) if rule.priority else b"",
            number(_FRA_TABLE, rule.table),
        )
    )
