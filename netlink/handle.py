"""What every group of rtnetlink verbs stands on: one socket, and errors that say what was attempted."""

from collections.abc import Iterable

from netlink.closing import Closing
from netlink.codec import Message
from netlink.namespace import Namespace
from netlink.socket import NETLINK_ROUTE, Encodable, NetlinkError, Socket

__all__ = ["Handle"]


class Handle(Closing):
    """A socket for rtnetlink(7), opened in `namespace` (or the thread's own) and staying there; a context manager.

    Not to be shared between threads. Opening raises OSError.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        self._socket = Socket(NETLINK_ROUTE, namespace)

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def execute(self, messages: Iterable[Encodable], *, doing: str = "") -> None:
        """Send requests of `netlink.messages` in one system call; they are dealt with in order.

        Raises NetlinkError for the first that failed, when all were tried: the kernel goes on after a failure.
        """
        self._socket.execute(messages, doing=doing)

    def outcomes(self, messages: Iterable[Encodable], *, doing: str = "") -> list[NetlinkError | None]:
        """Do as `execute`, but return the error of each request, or None."""
        return self._socket.outcomes(messages, doing=doing)

    def _tried(self, message: Message, *harmless: int, doing: str) -> bool:
        """Execute one request; False when it failed with one of the `harmless` error numbers."""
        (failure,) = self._socket.outcomes([message], doing=doing)
        if failure is None:
            return True
        if failure.errno in harmless:
            return False
        raise failure
