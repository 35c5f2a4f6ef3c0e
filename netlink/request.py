"""One of several requests that are sent together, and the answer to it."""

from collections.abc import Callable, Collection

from lean.typing import Final, Generic, TypeVar, cast
from netlink.codec import Message
from netlink.replies import Frame, NetlinkError

__all__ = ["ANY", "CHANGE", "DUMP", "LOOK", "Request", "change"]

T = TypeVar("T")

# The flags (NLM_F_*) by which the kernel is asked for an answer.
CHANGE: Final = 0x4
"""The kernel acknowledges the last change of several; errors always come."""
LOOK: Final = 0
"""The kernel answers with one object."""
DUMP: Final = 0x300
"""The kernel answers with all objects that fit."""


ANY: Final = range(1, 4096)
"""All error numbers."""


class Request(Generic[T]):
    """A request to rtnetlink(7); its `answer` is there once `Handle.send` has returned.

    `doing` says in an error what was attempted, or is called then: thousands of requests need no texts. `read` makes
    the answer of the kernel's messages; it gets None for an error that has one of the numbers in `harmless`.
    """

    __slots__ = ("_answer", "_doing", "asks", "harmless", "message", "read")

    def __init__(
        self,
        message: Message | bytes | bytearray,
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
        self._answer: tuple[T] | None = None

    @property
    def doing(self) -> str:
        """What is attempted, for an error."""
        return self._doing if isinstance(self._doing, str) else self._doing()

    @property
    def answer(self) -> T:
        """What the kernel said."""
        return cast("tuple[T]", self._answer)[0]

    def settle(self, frames: list[Frame], refused: NetlinkError | None) -> NetlinkError | None:
        """Take the kernel's messages, or its refusal; return the latter unless it is harmless."""
        if refused is not None and refused.errno not in self.harmless:
            return refused
        self._answer = (self.read(None if refused else frames),)
        return None


def change(
    message: Message | bytes | bytearray, doing: str | Callable[[], str], harmless: Collection[int] = ()
) -> Request[bool]:
    """Return a request for a change; its answer is False where it was refused with a `harmless` error number."""
    return Request(message, doing, _is_done, asks=CHANGE, harmless=harmless)


def _is_done(frames: list[Frame] | None) -> bool:
    return frames is not None
