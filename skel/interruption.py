"""A signal that ends a call before its time, and where the call lets it.

A plugin changes the kernel step by step. An exception out of a signal handler could come between a step and the note
of its inverse, or in the middle of an inverse. So the handler only asks for the end, and the exception comes

- at once where the call waits for others: in a `with interruption.waiting():` block, which changes nothing;
- where an inverse is registered (`Undo.add`), and at `interruption.check()`: between two steps;
- two seconds later wherever the call is, for a plugin that waits without saying so.

It comes once, and never into a `with interruption.shielded():` block: undoing runs to its end. A call that has come to
its end before it is told so succeeds.
"""

# Without the names that `signal` gives its numbers, which take longer than all that is needed of it here.
import _signal  # type: ignore[import-not-found] # it has no stubs

from lean import span
from lean.contextlib import contextmanager
from lean.typing import Iterator

_GRACE_SECONDS = 2.0
"""Far longer than any step takes."""


class InterruptionError(BaseException):
    """A signal ends the call. Not an Exception, so that `except Exception` does not catch it."""


class Interruption:
    """The end of one call before its time: whether it was asked for, and whether it may come now.

    `request` is for signal handlers, in the main thread; SIGALRM is this object's from then on.
    """

    def __init__(self, undo_seconds: int = 0) -> None:
        """Begin a call; SIGALRM ends the process `undo_seconds` after the exception, 0 is never."""
        self._undo_seconds = undo_seconds
        self._why = ""
        self._waits = 0
        self._shields = 0
        self._over = False

    def request(self, why: str) -> None:
        """End the call, which raises InterruptionError with the reason: here, if the call waits, or in its own time."""
        if self._over or self._why:
            return
        self._why = why
        if self._waits:
            self.check()
        if not self._over:
            _signal.signal(_signal.SIGALRM, self._overdue)
            _signal.setitimer(_signal.ITIMER_REAL, _GRACE_SECONDS)

    def check(self) -> None:
        """Raise InterruptionError if the call is to end. Call it between steps that take long together."""
        if self._why and not self._over and not self._shields:
            self._over = True
            self._limit_undoing()
            raise InterruptionError(self._why)

    @property
    def is_requested(self) -> bool:
        """Whether the call was to end before its time, be it that it did or that it had its outcome already."""
        return bool(self._why)

    @contextmanager
    def waiting(self, *, for_lock: bool = False) -> Iterator[None]:  # noqa: ARG002 -- the server's parent counts them
        """Let the end come at any point of the block: it waits, and leaves nothing behind if it ends early.

        `for_lock` says that it waits for another call of its network.
        """
        self._waits += 1
        try:
            self.check()
            yield
        finally:
            self._waits -= 1

    def lock(self, fd: int) -> None:
        """Lock an open file (flock(2)) against the other calls of its network; a signal may end the wait.

        Raises OSError.
        """
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with span("wait for lock", waits=True), self.waiting(for_lock=True):
                fcntl.flock(fd, fcntl.LOCK_EX)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep the end out of the block: it takes something back."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1

    def settle(self) -> None:
        """Note that the call has its outcome, which nothing changes any more."""
        asked, self._over = self._why, True
        if asked:
            _signal.setitimer(_signal.ITIMER_REAL, 0)

    def _overdue(self, *_: object) -> None:
        if not self._over:
            self.check()
            self._limit_undoing()  # undoing goes on already

    def _limit_undoing(self) -> None:
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        _signal.setitimer(_signal.ITIMER_REAL, self._undo_seconds)
