"""A signal that ends a call before its time, where the call lets it, and taking back the steps of an ADD that fails.

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
import errno

from fast_stdlib import span
from fast_stdlib.contextlib import contextmanager, nullcontext
from fast_stdlib.functools import partial
from fast_stdlib.typing import TYPE_CHECKING, Callable, Iterator, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

_GRACE_SECONDS = 2.0
"""Far longer than any step takes."""

P = ParamSpec("P")
T = TypeVar("T")


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
            self.check()  # raises out of the signal handler, which ends the system call that waits
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

    def waiting(self, *, for_lock: bool = False) -> "AbstractContextManager[None]":
        """Let the end come at any point of the block: it waits, and leaves nothing behind if it ends early.

        `for_lock` says that it waits for another call of its network.
        """
        return _Wait(self, for_lock=for_lock)

    def begin_wait(self, *, for_lock: bool) -> int:  # noqa: ARG002 -- the server's parent counts them
        """Begin a block that waits; `end_wait` must get what this returns, also if `check` raises."""
        self._waits += 1
        return 0

    def end_wait(self, before: int) -> None:  # noqa: ARG002 -- the worker's state
        """End a block that waits."""
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


class _Wait:
    """A block in which a call waits."""

    __slots__ = ("_before", "_for_lock", "_interruption")

    def __init__(self, interruption: Interruption, *, for_lock: bool) -> None:
        self._interruption = interruption
        self._for_lock = for_lock

    def __enter__(self) -> None:
        self._before = self._interruption.begin_wait(for_lock=self._for_lock)
        try:
            self._interruption.check()
        except BaseException:
            self._interruption.end_wait(self._before)
            raise

    def __exit__(self, *_: object) -> None:
        self._interruption.end_wait(self._before)


class Undo:
    """Inverses of the steps of an ADD, run backwards when the `with` block ends in an exception.

        with Undo(args.log, args.interruption) as undo:
            host = undo.enter(Rtnl())
            undo.add(delete_if_mine, host, name)
            make(host, name)
            ...

    An inverse is registered before its step, because a step that fails may have succeeded: the kernel makes a link and
    its answer is lost (ENOBUFS). So it must do no harm if nothing was made, nor to another's link of that name. A
    signal that ends the ADD raises InterruptionError out of `add`, before the next step, and out of no inverse.

    Sockets and namespaces that inverses use are opened by `enter`, or before the Undo. Then they are still open when
    the inverses run. A resource of a later `with` is closed by then; the first inverse that finds it so turns the
    ADD's error into a RuntimeError that says this, because a log line alone would leave the mistake unseen.

    It is contextlib.ExitStack with the two differences that an ADD needs: inverses do not run on success, and
    an inverse that fails is logged and hides neither the error nor the other inverses. An exception that
    ends the process (SystemExit, KeyboardInterrupt) is raised again when all of them have run.
    """

    def __init__(self, log: Callable[[str], None], interruption: Interruption | None = None) -> None:
        """Begin with no inverses; `interruption` is the call's, or None for a call that no signal ends."""
        self.log = log
        self.interruption = interruption or Interruption()
        self._entries: list[partial[object] | AbstractContextManager[object]] = []

    def enter(self, resource: "AbstractContextManager[T]") -> T:
        """Enter a context manager and return its value; its exit comes after all inverses registered from now on.

        It exits after a success, too. It cannot suppress the ADD's error. An error of its exit after a success is
        raised when all resources have exited; no step is taken back for it.
        """
        value = resource.__enter__()
        self._entries.append(resource)
        return value

    def add(self, inverse: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> Callable[[], object]:
        """Register the inverse of the next step, and return it for `forget`.

        Raises InterruptionError if a signal has come.
        """
        registered = partial(inverse, *args, **kwargs)
        self._entries.append(registered)
        self.interruption.check()
        return registered

    def forget(self, registered: Callable[[], object]) -> None:
        """Drop an inverse whose step has found that there was nothing to do."""
        self._entries.remove(registered)  # type: ignore[arg-type] # `add` returned it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if kind is None:
            self._entries = [entry for entry in self._entries if not isinstance(entry, partial)]
            if not self._entries:
                return
        end: BaseException | None = None
        with self.interruption.shielded(), span("undo") if kind and self._entries else nullcontext():
            while self._entries:
                entry = self._entries.pop()
                try:
                    if not isinstance(entry, partial):
                        entry.__exit__(kind, value, trace)
                    else:
                        entry()
                except BaseException as error:  # noqa: BLE001 - it is logged, and the first error is the one to report
                    if kind is None:
                        end = end or error
                        continue
                    self.log(f"undoing after a failure: {error}")
                    if not isinstance(error, Exception):
                        end = error if end is None or isinstance(end, Exception) else end
                    elif end is None and isinstance(value, Exception) and _is_closed(error):
                        end = _misordered(error, value)
        if end is not None:
            raise end


def _is_closed(error: Exception) -> bool:
    """Tell whether an inverse has found its socket, namespace or file closed."""
    return isinstance(error, OSError) and error.errno == errno.EBADF


def _misordered(error: Exception, first: Exception) -> RuntimeError:
    message = f"{first}; not undone: {error}: open what an inverse uses by Undo.enter, or before the Undo"
    misordered = RuntimeError(message)
    misordered.__cause__ = first
    return misordered
