"""What every open thing of this package shares: a with block closes it."""

from types import TracebackType

from lean.typing import Self

__all__ = ["Closing"]


class Closing:
    """To be closed, or used in a with statement."""

    __slots__ = ()

    def close(self) -> None:
        """Close; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
