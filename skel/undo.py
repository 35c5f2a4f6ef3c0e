"""Taking back what an ADD has done so far when it fails: the node is left as it was found."""

from collections.abc import Callable
from functools import partial
from types import TracebackType

from lean.typing import ParamSpec, Self

from .interruption import Interruption

__all__ = ["Undo"]

P = ParamSpec("P")


class Undo:
    """Inverses of the steps of an ADD, run backwards when the `with` block ends in an exception.

        with Undo(args.log, args.interruption) as undo:
            undo.add(delete_if_mine, link)
            make(link)
            ...

    An inverse is registered before its step, because a step that fails may have succeeded: the kernel makes a link and
    its answer is lost (ENOBUFS). So it must do no harm if nothing was made, nor to another's link of that name. A
    signal that ends the ADD raises InterruptionError out of `add`, before the next step, and out of no inverse.

    It is contextlib.ExitStack with the two differences that an ADD needs: nothing happens on success, and
    an inverse that fails is logged and hides neither the error nor the other inverses. What is to end the process
    (SystemExit, KeyboardInterrupt) meanwhile does so when all of them have run.
    """

    def __init__(self, log: Callable[[str], None], interruption: Interruption | None = None) -> None:
        """Begin with no inverses; `interruption` is the call's, or None for a call that no signal ends."""
        self._log = log
        self.interruption = interruption or Interruption()
        self._inverses: list[Callable[[], object]] = []

    def add(self, inverse: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> Callable[[], object]:
        """Register what takes back the step that comes next, and return it for `forget`.

        Raises InterruptionError if a signal has come.
        """
        registered = partial(inverse, *args, **kwargs)
        self._inverses.append(registered)
        self.interruption.check()
        return registered

    def forget(self, registered: Callable[[], object]) -> None:
        """Drop an inverse whose step has found that there was nothing to do."""
        self._inverses.remove(registered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        end: BaseException | None = None
        with self.interruption.shielded():
            while kind is not None and self._inverses:
                try:
                    self._inverses.pop()()
                except BaseException as error:  # noqa: BLE001 - it is logged, and the first error is the one to report
                    self._log(f"undoing after a failure: {error}")
                    if not isinstance(error, Exception):
                        end = end or error
        if end is not None:
            raise end
