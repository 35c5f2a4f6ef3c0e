"""What nftables itself says of a packet: the trace events of the kernel, by netlink.

Interface: NFNLGRP_NFTRACE and NFT_MSG_TRACE, include/uapi/linux/netfilter/nf_tables.h. A rule with `meta nftrace set 1`
asks for them. The kernel reports each rule that a packet meets wholly, and each policy.
"""

import struct
from typing import Final, NamedTuple

from netlink.namespace import Namespace
from netlink.nft_wire import ACCEPT, DROP, GOTO, JUMP, RETURN, SUBSYSTEM, attributes_of, number
from netlink.socket import NETLINK_NETFILTER, Socket
from netlink.wire import HEADER, Frame, string, values

_GROUP: Final = 1 << 8  # NFNLGRP_NFTRACE is the ninth
_MESSAGE: Final = 17  # NFT_MSG_TRACE
_TABLE, _CHAIN, _HANDLE, _TYPE, _VERDICT, _ID = 1, 2, 3, 4, 5, 6
_TRANSPORT_HEADER, _POLICY = 9, 16
_TYPE_POLICY, _TYPE_RULE = 1, 3
_VERDICT_CODE = 1
_CONTINUE = -1
_VERDICTS: Final = {ACCEPT: "accept", DROP: "drop", JUMP: "jump", GOTO: "goto", RETURN: "return", _CONTINUE: "continue"}
_FAMILIES: Final = {1: "inet", 2: "ip", 7: "bridge", 10: "ip6"}
_BUFFER: Final = 8 << 20


class TraceEvent(NamedTuple):
    """A rule that a packet has met, or the policy at a chain's end (`handle` 0)."""

    chain: str
    """Family, table and name."""
    handle: int
    verdict: str


class TraceReader:
    """Reads the events of one network namespace. Close it."""

    def __init__(self, namespace: Namespace) -> None:
        self._socket = Socket(NETLINK_NETFILTER, namespace, groups=_GROUP, buffer=_BUFFER)
        self._ports: dict[bytes, int] = {}
        self.events: dict[int, list[TraceEvent]] = {}
        """By the packet's source port."""

    def close(self) -> None:
        """Close."""
        self._socket.close()

    def read(self) -> None:
        """Take the events that have come. Raises NetlinkError (ENOBUFS) if one is lost."""
        for frame in self._socket.pending():
            if frame.type == SUBSYSTEM << 8 | _MESSAGE:
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        found = attributes_of(frame.encoded)
        # The first event of each base chain has the packet's headers; the others have its number only.
        if header := found.get(_TRANSPORT_HEADER):
            self._ports[found[_ID]] = struct.unpack_from("!H", header)[0]
        kind = number(found[_TYPE])
        # The end of a chain is reported as a rule without a handle.
        if kind not in {_TYPE_RULE, _TYPE_POLICY} or (kind == _TYPE_RULE and _HANDLE not in found):
            return
        if kind == _TYPE_RULE:
            code = number(values(found[_VERDICT])[_VERDICT_CODE])
            handle = struct.unpack("!Q", found[_HANDLE])[0]
        else:
            code, handle = number(found[_POLICY]), 0
        family = _FAMILIES[frame.encoded[HEADER.size]]
        chain = f"{family} {string(found[_TABLE])} {string(found[_CHAIN])}"
        port = self._ports[found[_ID]]
        self.events.setdefault(port, []).append(TraceEvent(chain, handle, _VERDICTS[code]))
