"""What every group of rtnetlink verbs stands on: one socket, and errors that say what was attempted."""

from collections.abc import Iterable

from lean.typing import Any, TypeVar
from netlink.closing import Closing
from netlink.namespace import Namespace
from netlink.request import Request, change
from netlink.rtnl_socket import RtnlSocket
from netlink.socket import Encodable, NetlinkError

__all__ = ["Handle"]


T = TypeVar("T")


class Handle(Closing):
    """A socket for rtnetlink(7), opened in `namespace` (or the thread's own) and staying there; a context manager.

    Not to be shared between threads. Opening raises OSError.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        self._socket = RtnlSocket(namespace)

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def execute(self, messages: Iterable[Encodable], *, doing: str = "") -> None:
        """Send requests of `netlink.messages` in one system call; they are dealt with in order.

        Raises NetlinkError for the first that failed, when all were tried: the kernel goes on after a failure.
        """
        self._socket.execute(messages, doing=doing)

    def outcomes(self, messages: Iterable[Encodable], *, doing: str = "") -> list[NetlinkError | None]:
        """Do as `execute`, but return the error of each request, or None."""
        return self._socket.outcomes(messages, doing=doing)

    def send(self, *requests: Request[Any]) -> None:
        """Send requests of `netlink.requests` in one system call; afterwards each has its answer.

        Only the last may list something. Raises NetlinkError for the first that the kernel refused, when all were
        tried: it goes on after a refusal.
        """
        self._socket.exchange(requests)

    def _asked(self, request: Request[T]) -> T:
        self.send(request)
        return request.answer

    def _tried(self, message: Encodable, *harmless: int, doing: str) -> bool:
        """Execute one request; False when it failed with one of the `harmless` error numbers."""
        return self._asked(change(message, doing, harmless))
