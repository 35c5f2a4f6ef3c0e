"""Requests to rtnetlink(7): several in one system call, each with its own answer."""

from fast_stdlib import recorder
from fast_stdlib.typing import Any, Callable, Collection, Final, Generic, Iterable, Iterator, TypeVar
from netlink.namespace import Namespace
from netlink.socket import NETLINK_ROUTE, Socket
from netlink.wire import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_MULTI,
    NLMSG_DONE,
    NLMSG_ERROR,
    Frame,
    NetlinkError,
    refusal,
)

T = TypeVar("T")

# The flags (NLM_F_*) that ask the kernel for an answer.
CHANGE: Final = NLM_F_ACK
"""The kernel acknowledges the last change of several; errors always come."""
LOOK: Final = 0
"""The kernel answers with one object."""
DUMP: Final = NLM_F_DUMP
"""The kernel answers with all objects that fit."""

_BATCH: Final = 200
"""Messages of one system call: their errors fit into the socket's buffer."""

ANY: Final = range(1, 4096)
"""All error numbers."""


class RtnlRequest(Generic[T]):
    """A request to rtnetlink(7); it has its `answer` when `RtnlSocket.send` has returned.

    `doing` names the attempt in an error. It may be a function, since thousands of requests need no texts. `read`
    makes the answer from the kernel's messages; it gets None for an error that has one of the numbers in `harmless`.
    """

    __slots__ = ("_answer", "_doing", "asks", "harmless", "message", "read")

    def __init__(
        self,
        message: bytes,
        doing: str | Callable[[], str],
        read: Callable[[list[Frame] | None], T],
        *,
        asks: int = LOOK,
        harmless: Collection[int] = (),
    ) -> None:
        self.message = message
        self._doing = doing
        self.read = read
        self.asks = asks
        self.harmless = harmless
        self._answer: list[T] = []

    @property
    def doing(self) -> str:
        """The attempt, for an error."""
        return self._doing if isinstance(self._doing, str) else self._doing()

    @property
    def answer(self) -> T:
        """The kernel's answer."""
        return self._answer[0]

    def settle(self, frames: list[Frame], refused: NetlinkError | None) -> NetlinkError | None:
        """Take the kernel's messages, or its refusal; return the refusal unless it is harmless."""
        if refused is not None and refused.errno not in self.harmless:
            return refused
        self._answer = [self.read(None if refused else frames)]
        return None


class RtnlSocket(Socket):
    """A socket for rtnetlink(7), opened in `namespace` or else the thread's own. Opening raises OSError."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        super().__init__(NETLINK_ROUTE, namespace)

    def send(self, *requests: RtnlRequest[Any]) -> None:
        """Send `requests`, of which only the last may be a dump, in one system call, and give each its answer.

        The kernel deals with them in order, and goes on after one that it refuses. Raises NetlinkError for the first
        that it refused, when all are dealt with.
        """
        if not requests:
            return
        if recorder() is None:
            self._exchange(requests)
            return
        from netlink.spans import message_span

        with message_span([each.message for each in requests], [each.doing for each in requests]):
            self._exchange(requests)

    def _exchange(self, requests: tuple[RtnlRequest[Any], ...]) -> None:
        last = len(requests) - 1
        first = self._send_all(
            [(each.message, 0 if each.asks == CHANGE and at != last else each.asks) for at, each in enumerate(requests)]
        )
        found, refused = self._answers(requests, first)
        failures = [request.settle(found[at], refused.get(at)) for at, request in enumerate(requests)]
        for failure in failures:
            if failure is not None:
                raise failure

    def _asked(self, request: RtnlRequest[T]) -> T:
        self.send(request)
        return request.answer

    def _tried(self, message: bytes, *harmless: int, doing: str) -> bool:
        """Send one request; False if it failed with one of the `harmless` error numbers."""
        return self._asked(change(message, doing, harmless))

    def _answers(
        self, requests: tuple[RtnlRequest[Any], ...], first: int
    ) -> tuple[list[list[Frame]], dict[int, NetlinkError]]:
        """Read until the last of `requests` is answered; return the messages and the errors by its place."""
        found: list[list[Frame]] = [[] for _ in requests]
        refused: dict[int, NetlinkError] = {}
        last = len(requests) - 1
        interrupted = is_over = False
        while not is_over:
            for frame in self._receive():
                at = frame.sequence - first
                if not 0 <= at <= last:
                    continue
                interrupted = interrupted or bool(frame.flags & NLM_F_DUMP_INTR)
                ended = frame.type in {NLMSG_ERROR, NLMSG_DONE}
                if not ended:
                    found[at].append(frame)
                elif failure := refusal(frame, requests[at].doing):
                    refused[at] = failure
                is_over = is_over or (at == last and (ended or not frame.flags & NLM_F_MULTI))
        if interrupted and requests[last].asks == DUMP and last not in refused:
            found[last] = self.dump(requests[last].message, doing=requests[last].doing)
        return found, refused


def change(message: bytes, doing: str | Callable[[], str], harmless: Collection[int] = ()) -> RtnlRequest[bool]:
    """Return a request for a change; its answer is False if the kernel refused it with a `harmless` error number."""
    return RtnlRequest(message, doing, _is_done, asks=CHANGE, harmless=harmless)


def batches(requests: Iterable[RtnlRequest[Any]]) -> Iterator[list[RtnlRequest[Any]]]:
    """Yield requests in parts for one `send` each: a system call for each message takes forty times the time."""
    waiting = list(requests)
    for start in range(0, len(waiting), _BATCH):
        yield waiting[start : start + _BATCH]


def _is_done(frames: list[Frame] | None) -> bool:
    return frames is not None
