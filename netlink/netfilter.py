"""The netlink socket for nftables: look-ups of many objects in one system call.

The caller opens it and hands it to all its users; a worker keeps it open (see `Netfilter`).
"""

import errno
import struct
from _socket import AF_UNSPEC

from fast_stdlib import recorder
from fast_stdlib.typing import Any, Callable, Generic, Sequence, TypeVar
from netlink.nft_wire import SUBSYSTEM, attributes_of
from netlink.socket import NETLINK_NETFILTER, Socket
from netlink.wire import NLM_F_ACK, NLMSG_ERROR, Frame, NetlinkError, attribute, message, refusal

T = TypeVar("T")

# include/uapi/linux/netfilter/nfnetlink.h
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_BATCH_GENID = 1
_NFGENMSG = struct.Struct(">BBH")


class LookUp(Generic[T]):
    """A question for one object; after `Netfilter.look_up`, `found` is the object, or None if it is missing."""

    __slots__ = ("doing", "found", "message", "read")

    def __init__(self, message: bytes, doing: str, read: Callable[[dict[int, bytes]], T]) -> None:
        """`read` makes the object from the attributes of the kernel's reply; `doing` names the question in an error."""
        self.message = message
        self.doing = doing
        self.read = read
        self.found: T | None = None


class Netfilter(Socket):
    """A socket in the network namespace that the calling thread is in. Raises OSError.

    To close it after a deletion takes 10 ms and more: the kernel frees the deleted objects first (a grace period of
    RCU). So a process that lives on keeps it open.
    """

    def __init__(self) -> None:
        """Open it; to be closed, or used in a with statement."""
        super().__init__(NETLINK_NETFILTER)
        self._has_lost_replies = False
        self._is_dumping = False

    @property
    def is_sound(self) -> bool:
        """False if a reply was lost (ENOBUFS, the time limit) or a dump was not read to its end.

        Then it is to be closed: the kernel refuses a second dump while one is under way.
        """
        return not self._has_lost_replies and not self._is_dumping

    def look_up(self, *questions: LookUp[Any]) -> None:
        """Send all `questions` in one system call and set their `found`. Raises NetlinkError."""
        if not questions:
            return
        if recorder() is None:
            self._ask(questions)
            return
        from netlink.spans import message_span

        with message_span([each.message for each in questions], [each.doing for each in questions], "nftables look-up"):
            self._ask(questions)

    def _ask(self, questions: tuple[LookUp[Any], ...]) -> None:
        first = self._send_all([(question.message, 0) for question in questions], changes=False)
        failures = []
        for frame in self._replies():
            # Each question has one reply, and they come in order, behind replies that an interrupted call left unread.
            index = frame.sequence - first
            if 0 <= index < len(questions):
                failure = _answered(questions[index], frame)
                if failure is not None:
                    failures.append(failure)
                if index == len(questions) - 1:
                    break
        if failures:
            raise failures[0]

    def commit(self, messages: Sequence[bytes], *, doing: str = "", generation: int | None = None) -> None:
        """Send `messages` as one transaction, of which all or nothing is done. Raises NetlinkError.

        The messages that begin and end it are added here, with the `generation` of the objects that it was made for:
        ERESTART if they have changed since. `doing` names the attempt in an error.
        """
        if not messages:
            return
        if recorder() is None:
            self._transact(messages, doing, generation)
            return
        from netlink.spans import message_span

        with message_span(messages, [doing], "nftables commit"):
            self._transact(messages, doing, generation)

    def _transact(self, messages: Sequence[bytes], doing: str, generation: int | None) -> None:
        guard = b"" if generation is None else attribute(_BATCH_GENID, generation.to_bytes(4, "big"))
        # Errors always come, and acknowledgements on request. That of the last change tells that the kernel has dealt
        # with all.
        changes = [(each, 0) for each in messages[:-1]] + [(messages[-1], NLM_F_ACK)]
        begin = self._send_all([(_edge(_BATCH_BEGIN, guard), 0), *changes, (_edge(_BATCH_END), 0)])
        last = begin + len(messages)
        failures: dict[int, NetlinkError] = {}
        for frame in self._replies():
            if frame.type != NLMSG_ERROR or not begin <= frame.sequence <= last:
                continue
            failure = refusal(frame, doing)
            if failure is not None:
                failures[frame.sequence] = failure
            # The kernel refuses the whole transaction in the answer to its beginning.
            if frame.sequence == last or begin in failures:
                break
        if failures:
            raise failures[min(failures)]

    def dump(self, question: bytes, *, doing: str = "") -> list[Frame]:
        """Do as `Socket.dump`."""
        self._is_dumping = True
        try:
            found = super().dump(question, doing=doing)
        except NetlinkError:  # the kernel's, at the end of the dump
            self._is_dumping = False
            raise
        self._is_dumping = False
        return found

    def _receive(self) -> list[Frame]:
        try:
            return super()._receive()
        except OSError:
            self._has_lost_replies = True
            raise


def _edge(kind: int, attributes: bytes = b"") -> bytes:
    return message(kind, _NFGENMSG.pack(AF_UNSPEC, 0, SUBSYSTEM) + attributes)


def _answered(question: LookUp[Any], frame: Frame) -> NetlinkError | None:
    """Set the question's `found`; return the error, unless it says that the object is missing."""
    failure = refusal(frame, question.doing) if frame.type == NLMSG_ERROR else None
    question.found = question.read(attributes_of(frame.encoded)) if failure is None else None
    return None if failure is None or failure.errno == errno.ENOENT else failure
