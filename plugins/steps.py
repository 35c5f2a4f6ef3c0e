"""Steps that are all taken, whatever becomes of the others: how DEL and GC go on past errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from lean.typing import ParamSpec, Self
from skel import CniError, Code

__all__ = ["Steps"]

P = ParamSpec("P")


class Steps:
    """Takes steps and keeps their errors; the end of the `with` block raises what failed, together."""

    def __init__(self) -> None:
        self._failures: list[Exception] = []

    def take(self, step: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> None:
        """Take a step now."""
        try:
            step(*args, **kwargs)
        except (CniError, OSError) as error:
            self._failures.append(error)

    @contextmanager
    def meanwhile(self, step: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> Iterator[None]:
        """Take a step that waits for the kernel while the block goes on; it has ended when the block has.

        If no thread can be started (`pids.max` of a cgroup, RLIMIT_NPROC), the step comes before the block.
        """
        from threading import Thread  # 1 ms, which ADD need not pay

        unforeseen: list[BaseException] = []

        def run() -> None:
            try:
                self.take(step, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                unforeseen.append(error)

        thread = Thread(target=run)
        try:
            thread.start()
        except RuntimeError:
            run()
        try:
            yield
        finally:
            if thread.ident is not None:
                thread.join()
        if unforeseen:
            raise unforeseen[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._failures:
            return
        # Steps that need the same key of the configuration fail with the same CniError.
        distinct = {str(each) if isinstance(each, CniError) else id(each): each for each in self._failures}
        if len(distinct) == 1:
            raise self._failures[0]
        raise CniError(Code.INTERNAL, "; ".join(map(str, distinct.values())))
