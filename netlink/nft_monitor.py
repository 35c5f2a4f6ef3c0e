"""Losses on a node: deleted tables, flushed chains and deleted bridges, as the kernel announces them.

Interface: the multicast groups NFNLGRP_NFTABLES (include/uapi/linux/netfilter/nfnetlink.h) and RTMGRP_LINK
(rtnetlink.h). Deletions of single rules, elements and chains without a hook are the daily work of programs, and no
loss. A chain that has lost rules and has none left was flushed.
"""

import errno
import select
from time import monotonic

from fast_stdlib.contextlib import nullcontext, suppress
from fast_stdlib.typing import Final, Mapping, NamedTuple, Self
from netlink.link import link_in
from netlink.link_wire import IFINFOMSG
from netlink.namespace import Closing, Namespace, entered
from netlink.netfilter import Netfilter
from netlink.nft_wire import SUBSYSTEM, attributes_of, encode_message
from netlink.nftables import NftTable
from netlink.socket import NETLINK_NETFILTER, NETLINK_ROUTE, Socket
from netlink.wire import HEADER, DumpInterruptedError, Frame, NetlinkError, string

_NFTABLES_GROUP: Final = 1 << 6  # NFNLGRP_NFTABLES is the seventh
_LINK_GROUP: Final = 0x1  # RTMGRP_LINK
_DEL_TABLE, _NEW_CHAIN, _GET_CHAIN, _DEL_CHAIN, _DEL_RULE = 2, 3, 4, 5, 8  # NFT_MSG_*
_CHAIN_NAME, _CHAIN_HOOK, _RULE_CHAIN = 3, 4, 2  # NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_RULE_CHAIN
_RTM_DELLINK = 17
_BUFFER = 4 << 20
"""Bytes of notifications that may wait: a flush of thousands of rules is announced rule by rule."""
_QUIET_S, _BURST_S = 0.005, 0.1
"""A burst of notifications is over after so much silence, and is cut off after so long, in seconds."""


class _ChainName(NamedTuple):
    family: int
    table: str
    chain: str

    @classmethod
    def of(cls, encoded: bytes, attributes: Mapping[int, bytes], name: int) -> Self:
        """Return the chain in a message, of which attribute `name` is the chain's name."""
        return cls(encoded[HEADER.size], string(attributes[1]), string(attributes[name]))


class LossMonitor(Closing):
    """Waits for losses in one network namespace. Not to be shared between threads."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """Begin to listen, in the thread's own namespace if none is given. Raises OSError."""
        self._rules = Socket(NETLINK_NETFILTER, namespace, groups=_NFTABLES_GROUP, buffer=_BUFFER)
        self._links = Socket(NETLINK_ROUTE, namespace, groups=_LINK_GROUP, buffer=_BUFFER)
        with entered(namespace) if namespace else nullcontext():
            self._netfilter = Netfilter()
        # The notification of a deleted chain does not say that it had a hook (since Linux 6.4).
        self._base_chains = self._listed()
        self._poll = select.poll()
        for each in (self._rules, self._links):
            self._poll.register(each.fileno(), select.POLLIN)

    def close(self) -> None:
        """Close; a second call does nothing."""
        for each in (self._rules, self._links, self._netfilter):
            each.close()

    def fileno(self) -> int:
        """Return the descriptor of the socket for nftables."""
        return self._rules.fileno()

    def wait(self, timeout_s: float | None) -> bool:
        """Return True when something was lost and the notifications pause; False after `timeout_s` without a loss.

        None waits without end. Lost notifications (ENOBUFS) count as a loss. Raises NetlinkError.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while self._poll.poll(None if deadline is None else max(0.0, deadline - monotonic()) * 1000):
            if self._read_burst():
                return True
        return False

    def _read_burst(self) -> bool:
        """Read until the notifications pause; tell whether they announce a loss."""
        lost = False
        flushed: set[_ChainName] = set()
        for _ in range(int(_BURST_S / _QUIET_S)):
            lost |= self._read_rules(flushed) | self._read_links()
            if not self._poll.poll(_QUIET_S * 1000):
                break
        return lost or any(self._is_empty(each) for each in flushed)

    def _read_rules(self, flushed: set[_ChainName]) -> bool:
        """Read the notifications of nftables; add the chains that have lost rules."""
        lost = False
        for frame in _pending(self._rules):
            if frame is None:
                lost = True
                with suppress(DumpInterruptedError):
                    self._base_chains = self._listed()
                continue
            kind = frame.type - (SUBSYSTEM << 8)
            if kind not in {_DEL_TABLE, _NEW_CHAIN, _DEL_CHAIN, _DEL_RULE}:
                continue
            attributes = attributes_of(frame.encoded)
            if kind == _DEL_TABLE:
                lost = True
            elif kind == _DEL_RULE:
                flushed.add(_ChainName.of(frame.encoded, attributes, _RULE_CHAIN))
            else:
                chain = _ChainName.of(frame.encoded, attributes, _CHAIN_NAME)
                if kind == _NEW_CHAIN and _CHAIN_HOOK in attributes:
                    self._base_chains.add(chain)
                elif kind == _DEL_CHAIN and chain in self._base_chains:
                    self._base_chains.remove(chain)
                    lost = True
        return lost

    def _listed(self) -> set[_ChainName]:
        """Return all chains with a hook. Raises NetlinkError."""
        frames = self._netfilter.dump(encode_message(_GET_CHAIN, 0, 0, []), doing="list chains")
        chains = [(frame.encoded, attributes_of(frame.encoded)) for frame in frames]
        return {_ChainName.of(encoded, each, _CHAIN_NAME) for encoded, each in chains if _CHAIN_HOOK in each}

    def _read_links(self) -> bool:
        """Read the notifications of links; tell whether a bridge was deleted."""
        return any(frame is None or _is_deleted_bridge(frame) for frame in [*_pending(self._links)])

    def _is_empty(self, name: _ChainName) -> bool:
        """Tell whether a chain exists and has no rules."""
        table = NftTable(self._netfilter, name.family, name.table)
        return table.chain(name.chain) is not None and not table.rules(name.chain)


def _pending(socket: Socket) -> list[Frame | None]:
    """Return the notifications that have come, None for lost ones. Raises NetlinkError."""
    try:
        return [*socket.pending()]
    except NetlinkError as error:
        if error.errno != errno.ENOBUFS:
            raise
        return [None]


def _is_deleted_bridge(frame: Frame) -> bool:
    if frame.type != _RTM_DELLINK:
        return False
    family = IFINFOMSG.unpack_from(frame.encoded, HEADER.size)[0]
    # Family AF_BRIDGE announces a port that leaves its bridge.
    return family == 0 and link_in(frame).kind == "bridge"
