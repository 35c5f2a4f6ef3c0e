"""A netlink socket: many requests in one system call, dumps that are whole, errors in the kernel's own words.

See netlink(7) and Documentation/userspace-api/netlink in the kernel.
"""

import _socket
import errno
import fcntl
import select
import struct

from fast_stdlib import recorder
from fast_stdlib.contextlib import nullcontext
from fast_stdlib.typing import Final, Iterator, Sequence
from netlink.namespace import Closing, Namespace, entered
from netlink.wire import (
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    DumpInterruptedError,
    Frame,
    NetlinkError,
    bundle,
    described,
    frames,
    refusal,
)

NETLINK_ROUTE: Final = 0
NETLINK_NETFILTER: Final = 12

_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NETLINK_GET_STRICT_CHK = 12
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SIOCGSKNS = 0x894C  # include/uapi/linux/sockios.h

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

    It sets the sequence numbers and the flags that ask for an answer; the type and all other flags are the message's
    own. Not to be shared between threads.
    """

    def __init__(self, protocol: int, namespace: Namespace | None = None, *, groups: int = 0, buffer: int = 0) -> None:
        """Open in `namespace`, or else the thread's own; `groups` is a bit mask of multicast groups. Raises OSError.

        `buffer` is the size of the receive buffer in bytes, 0 for the kernel's default.
        """
        with entered(namespace) if namespace else nullcontext():
            self._socket = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, protocol)
        self._sequence = 0
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, struct.pack("@ll", _TIME_LIMIT, 0))
        if buffer:
            self._socket.setsockopt(_socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer)
        if groups:
            self._socket.bind((0, groups))

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor, for poll."""
        return self._socket.fileno()

    def dump(self, question: bytes, *, doing: str = "") -> list[Frame]:
        """Ask for all objects that match, and ask again if the table changed while it was read.

        Raises DumpInterruptedError after five attempts, and NetlinkError.
        """
        if recorder() is None:
            return self._dumped(question, doing)
        from netlink.spans import message_span

        with message_span([question], [doing]):
            return self._dumped(question, doing)

    def _dumped(self, question: bytes, doing: str) -> list[Frame]:
        for _ in range(_DUMP_ATTEMPTS):
            found, whole = self._read_dump(self._send_all([(question, NLM_F_DUMP)]), doing)
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

    def pending(self) -> list[Frame]:
        """Return all messages that have come, without waiting. Raises NetlinkError: ENOBUFS if any was lost."""
        found: list[Frame] = []
        while True:
            try:
                received = self._socket.recv(_RECEIVE_BUFFER, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            except OSError as error:
                raise NetlinkError(error.errno, error.strerror) from error
            found += frames(received)

    def namespace(self) -> Namespace:
        """Open the network namespace that this socket lives in. Raises OSError (EPERM without CAP_NET_ADMIN)."""
        return Namespace("the namespace of a socket", fcntl.ioctl(self._socket, _SIOCGSKNS))

    def _read_dump(self, sequence: int, doing: str) -> tuple[list[Frame], bool]:
        found: list[Frame] = []
        whole = True
        while True:
            for frame in self._receive():
                if frame.sequence != sequence:
                    continue
                if frame.flags & NLM_F_DUMP_INTR:
                    whole = False
                if frame.type in {NLMSG_ERROR, NLMSG_DONE}:
                    failure = refusal(frame, doing)
                    if failure is not None:
                        raise failure
                    return found, whole
                found.append(frame)

    def _send_all(self, messages: Sequence[tuple[bytes, int]], *, changes: bool = True) -> int:
        """Send messages, each with flags besides its own, in one system call; return the first's sequence number.

        `changes` says that an answer may repeat its message, as errors of changes do. Many need a larger buffer, which
        takes rights on the machine itself.
        """
        # 32 bits hold more requests than any of our processes makes.
        first = self._sequence + 1
        self._sequence += len(messages)
        if changes and len(messages) > _ERRORS_THAT_FIT:
            self._socket.setsockopt(_socket.SOL_SOCKET, _SO_RCVBUFFORCE, len(messages) * _ERROR_SIZE)
        self._send(bundle(messages, first))
        return first

    def _send(self, packet: bytes | bytearray) -> None:
        if len(packet) > _SEND_BUFFER:
            self._socket.setsockopt(_socket.SOL_SOCKET, _SO_SNDBUFFORCE, len(packet) + _SEND_BUFFER)
        self._socket.send(packet)

    def _replies(self) -> Iterator[Frame]:
        while True:
            yield from self._receive()

    def _receive(self) -> list[Frame]:
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
