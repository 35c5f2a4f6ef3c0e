"""The signals that ask a program to end: the first one is an exception, and what it has begun is finished or undone."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupted_once"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """End at the first signal that asks for it; a second one keeps nothing from being finished.

    Signals that this program was started to ignore stay ignored, as nohup(1) wants it.
    """
    interrupted = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        del frame
        # Further signals meet this handler, not SIG_IGN, which plugins that are still to be run would inherit.
        if interrupted:
            return
        interrupted = True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    heeded = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
