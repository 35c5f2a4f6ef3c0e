"""Taking back what an ADD has done so far when it fails: the node is left as it was found."""

from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self

__all__ = ["Undo"]

P = ParamSpec("P")


class Undo:
    """Inverses of the steps that have succeeded, run backwards when the `with` block ends in an exception.

        with Undo(args.log) as undo:
            make(link)
            undo.add(delete, link)
            ...

    It is contextlib.ExitStack with the two differences that an ADD needs: nothing happens on success, and
    an inverse that fails is logged and hides neither the error nor the other inverses. What is to end the process
    (SystemExit, KeyboardInterrupt) meanwhile does so when all of them have run.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._inverses: list[Callable[[], object]] = []

    def add(self, inverse: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Register what takes back a step that has just succeeded."""
        self._inverses.append(lambda: inverse(*args, **kwargs))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        end: BaseException | None = None
        while kind is not None and self._inverses:
            try:
                self._inverses.pop()()
            except BaseException as error:  # noqa: BLE001 - it is logged, and the first error is the one to report
                self._log(f"undoing after a failure: {error}")
                if not isinstance(error, Exception):
                    end = end or error
        if end is not None:
            raise end
