"""Filters of qdiscs, and the redirection of packets to another link.

Wire format: include/uapi/linux/pkt_cls.h and tc_act/tc_mirred.h; names are theirs.
"""

import struct
from _socket import htons

from fast_stdlib.typing import Iterable, NamedTuple
from netlink.traffic_control import TCA_KIND, TCA_OPTIONS, TCMSG, traffic_message
from netlink.wire import (
    HEADER,
    NLM_F_CREATE,
    NLM_F_EXCL,
    Frame,
    attribute,
    items,
    message,
    nested,
    number,
    string,
    text,
    uint32,
    value,
    values,
)

_NEW_FILTER, _GET_FILTER, _GET_ACTION = 44, 46, 50
_TCA_U32_CLASSID, _TCA_U32_SEL, _TCA_U32_ACT = 1, 5, 7
_TCA_ACT_TAB, _TCA_ACT_KIND, _TCA_ACT_OPTIONS = 1, 1, 2
_TCA_MIRRED_PARMS = 2
_TC_U32_TERMINAL = 1
_TC_ACT_STOLEN = 4
_TCA_EGRESS_REDIR = 1
_TCAMSG = bytes(4)
_SELECTOR = struct.Struct("=BBBxHHhhI")
"""struct tc_u32_sel: flags, offshift, nkeys, offmask, off, offoff, hoff, hmask."""
_KEY = struct.Struct("!II")
_KEY_OFFSETS = struct.Struct("=ii")
_MIRRED = struct.Struct("=IIiiiiI")
"""struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex."""


class Key(NamedTuple):
    """A word of a packet that a u32 filter compares."""

    mask: int
    value: int
    offset: int
    """From the network header, in bytes."""


class Filter(NamedTuple):
    """A u32 filter."""

    priority: int
    protocol: int
    """ETH_P_*."""
    class_id: int
    keys: tuple[Key, ...]
    redirected_to: int
    """The ifindex that packets are redirected to, or 0."""


def new_u32_filter(
    ifindex: int, *, parent: int, priority: int, protocol: int, class_id: int, keys: Iterable[Key]
) -> bytes:
    """Make a filter that puts packets which match all `keys` into a class."""
    options = number(_TCA_U32_CLASSID, class_id) + _selector(tuple(keys))
    return _new_filter(ifindex, parent, priority, protocol, options)


def new_redirection(ifindex: int, *, parent: int, priority: int, protocol: int, target: int) -> bytes:
    """Make a filter that redirects all packets to the link `target`, as if that sent them."""
    parameters = _MIRRED.pack(0, 0, _TC_ACT_STOLEN, 0, 0, _TCA_EGRESS_REDIR, target)
    action = text(_TCA_ACT_KIND, "mirred") + nested(_TCA_ACT_OPTIONS, attribute(_TCA_MIRRED_PARMS, parameters))
    return _new_filter(ifindex, parent, priority, protocol, _selector(()) + nested(_TCA_U32_ACT, nested(1, action)))


def get_filters(ifindex: int, parent: int) -> bytes:
    """Ask for all filters of a qdisc, by a dump."""
    return traffic_message(_GET_FILTER, ifindex, "", b"", handle=0, parent=parent, flags=0, info=0)


def get_actions(kind: str) -> bytes:
    """Ask for all actions of a kind in the network namespace, by a dump; those of filters are among them."""
    return message(_GET_ACTION, _TCAMSG + nested(_TCA_ACT_TAB, nested(1, text(_TCA_ACT_KIND, kind))))


def filter_in(frame: Frame) -> Filter | None:
    """Return the filter that a message describes; None for one of another kind, or a table of filters."""
    _, _, _, _, info = TCMSG.unpack_from(frame.encoded, HEADER.size)
    found = values(frame.encoded, HEADER.size + TCMSG.size)
    options = values(found.get(TCA_OPTIONS, b""))
    if string(found.get(TCA_KIND, b"")) != "u32" or _TCA_U32_SEL not in options:
        return None
    actions = (action for _, action in items(options.get(_TCA_U32_ACT, b"")))
    targets = [target for action in actions if (target := _mirred_target(action))]
    return Filter(
        priority=info >> 16,
        protocol=htons(info & 0xFFFF),
        class_id=uint32(options.get(_TCA_U32_CLASSID)),
        keys=_keys(options[_TCA_U32_SEL]),
        redirected_to=targets[0] if targets else 0,
    )


def mirred_targets_in(frame: Frame) -> list[int]:
    """Return the ifindexes that the actions of kind mirred in a message send packets to."""
    listed = value(frame.encoded[HEADER.size + len(_TCAMSG) :], _TCA_ACT_TAB)
    return [target for _, action in items(listed) if (target := _mirred_target(action))]


def _new_filter(ifindex: int, parent: int, priority: int, protocol: int, options: bytes) -> bytes:
    info = priority << 16 | htons(protocol)
    flags = NLM_F_CREATE | NLM_F_EXCL
    return traffic_message(_NEW_FILTER, ifindex, "u32", options, handle=0, parent=parent, flags=flags, info=info)


def _selector(keys: tuple[Key, ...]) -> bytes:
    keys = keys or (Key(0, 0, 0),)
    encoded = _SELECTOR.pack(_TC_U32_TERMINAL, 0, len(keys), 0, 0, 0, 0, 0)
    for key in keys:
        encoded += _KEY.pack(key.mask, key.value) + _KEY_OFFSETS.pack(key.offset, 0)
    return attribute(_TCA_U32_SEL, encoded)


def _keys(selector: bytes) -> tuple[Key, ...]:
    found = []
    for number_of_key in range(selector[2]):
        at = _SELECTOR.size + number_of_key * (_KEY.size + _KEY_OFFSETS.size)
        mask, wanted = _KEY.unpack_from(selector, at)
        offset, _ = _KEY_OFFSETS.unpack_from(selector, at + _KEY.size)
        if mask:
            found.append(Key(mask, wanted, offset))
    return tuple(found)


def _mirred_target(action: bytes) -> int:
    parameters = value(value(action, _TCA_ACT_OPTIONS), _TCA_MIRRED_PARMS)
    is_mirred = string(value(action, _TCA_ACT_KIND)) == "mirred" and parameters
    return int(_MIRRED.unpack_from(parameters)[-1]) if is_mirred else 0
