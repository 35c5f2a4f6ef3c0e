"""A netlink socket: many requests in one system call, dumps that are whole, errors in the kernel's own words.

See netlink(7) and Documentation/userspace-api/netlink in the kernel.
"""

import _socket
import errno
import fcntl
import select
import struct
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from lean.typing import Final
from netlink.namespace import Closing, Namespace, entered
from netlink.wire import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    DumpInterruptedError,
    Frame,
    NetlinkError,
    attribute,
    described,
    frames,
    message,
    refusal,
    stamp,
)

__all__ = ["NETLINK_NETFILTER", "NETLINK_ROUTE", "DumpInterruptedError", "Frame", "NetlinkError", "Socket"]

NETLINK_ROUTE: Final = 0
NETLINK_NETFILTER: Final = 12

_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NETLINK_GET_STRICT_CHK = 12
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SIOCGSKNS = 0x894C  # include/uapi/linux/sockios.h
# include/uapi/linux/netfilter/nfnetlink.h
_NFNL_MSG_BATCH_BEGIN = 0x10
_NFNL_MSG_BATCH_END = 0x11
_NFNL_BATCH_GENID = 1

_NFGENMSG = struct.Struct(">BBH")

# The kernel sends at most 32 KiB at once in a dump, and single replies are smaller.
_RECEIVE_BUFFER = 1 << 16
# The default send buffer (208 KiB), less the kernel's own part of it.
_SEND_BUFFER = 200_000
# Errors that fit into the default receive buffer, each in an skb of its own, and the bytes to reserve for one more.
_ERRORS_THAT_FIT = 100
_ERROR_SIZE = 2048
# The kernel answers before send(2) returns; a reply that takes this long (seconds) never comes.
_TIME_LIMIT = 10
_DUMP_ATTEMPTS = 5


class Socket(Closing):
    """A netlink socket; it stays in the network namespace that it was opened in, in whatever namespace its users are.

    It sets the sequence numbers and the NLM_F_REQUEST and NLM_F_ACK flags; the type and all other flags are the
    message's own. Not to be shared between threads.
    """

    def __init__(self, protocol: int, namespace: Namespace | None = None, *, groups: int = 0) -> None:
        """Open in `namespace`, or else the thread's own; `groups` is a bit mask of multicast groups. Raises OSError."""
        with entered(namespace) if namespace else nullcontext():
            self._socket = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, protocol)
        self._sequence = 0
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, struct.pack("@ll", _TIME_LIMIT, 0))
        if groups:
            self._socket.bind((0, groups))

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor, for poll."""
        return self._socket.fileno()

    def execute(
        self,
        messages: Iterable[bytes],
        *,
        doing: str = "",
        subsystem: int | None = None,
        generation: int | None = None,
    ) -> None:
        """Send all `messages` in one system call and raise NetlinkError for the first that failed, if any.

        Without `subsystem` each message stands alone: the kernel goes on after one that failed. With it (such as
        NFNL_SUBSYS_NFTABLES) they are one nfnetlink transaction, of which all or nothing is done; the messages that
        begin and end it are added here, with the `generation` of the subsystem's objects that it was made for: ERESTART
        if they have changed since. `doing` names the attempt in an error ("create bridge 'cni0'").
        """
        for failure in self.outcomes(messages, doing=doing, subsystem=subsystem, generation=generation):
            if failure is not None:
                raise failure

    def outcomes(
        self,
        messages: Iterable[bytes],
        *,
        doing: str = "",
        subsystem: int | None = None,
        generation: int | None = None,
    ) -> list[NetlinkError | None]:
        """Do as `execute`, but return the error of each message, or None for each that succeeded.

        Raises NetlinkError if the failure belongs to no single message, as when a transaction cannot be committed.
        """
        encoded = [bytearray(each) for each in messages]
        if not encoded:
            return []
        first = self._next_sequence(len(encoded))
        last = first + len(encoded) - 1
        for number, each in enumerate(encoded, first):
            # Errors always come, in order, and acknowledgements on request. The last one's tells that the kernel has
            # dealt with all, without a reply for each.
            stamp(each, NLM_F_REQUEST | (NLM_F_ACK if number == last else 0), number)
        begin = -1
        if subsystem is not None:
            begin = self._next_sequence(2)
            encoded.insert(0, _batch_edge(_NFNL_MSG_BATCH_BEGIN, begin, subsystem, generation))
            encoded.append(_batch_edge(_NFNL_MSG_BATCH_END, begin + 1, subsystem))
        self._expect_errors(len(encoded))
        self._send(b"".join(encoded))
        failures: dict[int, NetlinkError] = {}
        for frame in self._replies():
            if frame.type != NLMSG_ERROR:
                continue
            failure = refusal(frame, doing)
            if failure is not None and frame.sequence == begin:
                raise failure
            if failure is not None and first <= frame.sequence <= last:
                failures[frame.sequence] = failure
            if frame.sequence == last:
                break
        return [failures.get(number) for number in range(first, last + 1)]

    def request(self, question: bytes, *, doing: str = "") -> Frame:
        """Ask for one object and return the kernel's reply. Raises NetlinkError (ENOENT, ENODEV: no such object)."""
        sequence = self._next_sequence()
        encoded = bytearray(question)
        stamp(encoded, NLM_F_REQUEST, sequence)
        self._send(encoded)
        for frame in self._replies():
            if frame.sequence != sequence:
                continue
            if frame.type != NLMSG_ERROR:
                return frame
            failure = refusal(frame, doing)
            if failure is not None:
                raise failure
        raise AssertionError  # _replies never ends by itself

    def dump(self, question: bytes, *, doing: str = "") -> list[Frame]:
        """Ask for all objects that match, and ask again if the table changed while it was read.

        Raises DumpInterruptedError after five attempts, and NetlinkError.
        """
        encoded = bytearray(question)
        for _ in range(_DUMP_ATTEMPTS):
            sequence = self._next_sequence()
            stamp(encoded, NLM_F_REQUEST | NLM_F_DUMP, sequence)
            self._send(encoded)
            found, whole = self._read_dump(sequence, doing)
            if whole:
                return found
        raise DumpInterruptedError(errno.EINTR, described(doing, "the table kept changing while it was read"))

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification of the groups subscribed to, and discard all that have come.

        False if none came in `timeout_s` seconds. One that was lost for lack of buffer space counts.
        """
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        if not readable.poll(timeout_s * 1000):
            return False
        while True:
            try:
                self._socket.recv(1, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def namespace(self) -> Namespace:
        """Open the network namespace that this socket lives in. Raises OSError (EPERM without CAP_NET_ADMIN)."""
        return Namespace("the namespace of a socket", fcntl.ioctl(self._socket, _SIOCGSKNS))

    def _read_dump(self, sequence: int, doing: str) -> tuple[list[Frame], bool]:
        found: list[Frame] = []
        whole = True
        for frame in self._replies():
            if frame.sequence != sequence:
                continue
            if frame.flags & NLM_F_DUMP_INTR:
                whole = False
            if frame.type in {NLMSG_ERROR, NLMSG_DONE}:
                failure = refusal(frame, doing)
                if failure is not None:
                    raise failure
                break
            found.append(frame)
        return found, whole

    def _next_sequence(self, count: int = 1) -> int:
        # 32 bits hold more requests than any of our processes makes.
        first = self._sequence + 1
        self._sequence += count
        return first

    def _expect_errors(self, count: int) -> None:
        if count > _ERRORS_THAT_FIT:
            self._socket.setsockopt(_socket.SOL_SOCKET, _SO_RCVBUFFORCE, count * _ERROR_SIZE)

    def _send(self, packet: bytes | bytearray) -> None:
        if len(packet) > _SEND_BUFFER:
            self._socket.setsockopt(_socket.SOL_SOCKET, _SO_SNDBUFFORCE, len(packet) + _SEND_BUFFER)
        self._socket.send(packet)

    def _replies(self) -> Iterator[Frame]:
        while True:
            yield from self._receive()

    def _receive(self) -> Iterator[Frame]:
        try:
            # MSG_TRUNC: the length is that of the whole message, even if it did not fit.
            received = self._socket.recv(_RECEIVE_BUFFER, _socket.MSG_TRUNC)
        except BlockingIOError:
            raise NetlinkError(errno.ETIMEDOUT, f"no reply from the kernel within {_TIME_LIMIT} s") from None
        except OSError as error:
            raise NetlinkError(error.errno, error.strerror) from error
        if len(received) > _RECEIVE_BUFFER:
            raise NetlinkError(errno.EMSGSIZE, f"a reply of {len(received)} bytes")
        return frames(received)


def _batch_edge(kind: int, sequence: int, subsystem: int, generation: int | None = None) -> bytearray:
    guard = b"" if generation is None else attribute(_NFNL_BATCH_GENID, generation.to_bytes(4, "big"))
    edge = bytearray(message(kind, _NFGENMSG.pack(_socket.AF_UNSPEC, 0, subsystem) + guard))
    stamp(edge, NLM_F_REQUEST, sequence)
    return edge
