"""Taking back the steps of an ADD that fails: the node is left as it was found."""

import errno

from lean import span
from lean.contextlib import nullcontext
from lean.functools import partial
from lean.typing import TYPE_CHECKING, Callable, ParamSpec, Self, TypeVar

from .interruption import Interruption

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")


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
        self._log = log
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
        end: BaseException | None = None
        with self.interruption.shielded(), span("undo") if kind and self._entries else nullcontext():
            while self._entries:
                entry = self._entries.pop()
                try:
                    if not isinstance(entry, partial):
                        entry.__exit__(kind, value, trace)
                    elif kind is not None:
                        entry()
                except BaseException as error:  # noqa: BLE001 - it is logged, and the first error is the one to report
                    if kind is None:
                        end = end or error
                        continue
                    self._log(f"undoing after a failure: {error}")
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
