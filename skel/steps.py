"""Steps that are all taken, whatever becomes of the others: how DEL and GC go on past errors."""

from fast_stdlib.typing import TYPE_CHECKING, ParamSpec, Self, TypeVar
from skel import CniError, Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")


class Steps:
    """Takes steps and keeps their errors; the end of the `with` block raises them together."""

    def __init__(self) -> None:
        self._failures: list[Exception] = []

    def take(self, step: "Callable[P, T]", *args: "P.args", **kwargs: "P.kwargs") -> T | None:
        """Take a step now, and return its value; None if it fails."""
        try:
            return step(*args, **kwargs)
        except (CniError, OSError) as error:
            self._failures.append(error)
            return None

    @property
    def failures(self) -> "Sequence[Exception]":
        """The errors until now."""
        return self._failures

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if kind is not None or not self._failures:
            return
        # Steps that need the same key of the configuration fail with the same CniError.
        distinct = {str(each) if isinstance(each, CniError) else id(each): each for each in self._failures}
        if len(distinct) == 1:
            raise self._failures[0]
        raise CniError(Code.INTERNAL, "; ".join(map(str, distinct.values())))
