"""The signals that end a program: the first raises an exception, and operations under way are finished or undone."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """End at the first signal that ends the program; a second signal does not interrupt the clean-up.

    If the program was started with signals ignored, they stay ignored, as nohup(1) requires.
    """
    interrupted = False

    def end(number: int, _: FrameType | None) -> None:
        nonlocal interrupted
        # Further signals get this handler, not SIG_IGN, which later plugin processes would inherit.
        if interrupted:
            return
        interrupted = True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    with handled_by(end):
        yield


class SignalArrival:
    """Tells any thread whether a signal that ends the program has arrived."""

    def __init__(self, wakeup: int, numbers: frozenset[int]) -> None:
        """Take the reading end of the pipe of signal.set_wakeup_fd, and the signals to report."""
        self._numbers = numbers
        self._poll = select.poll()
        self._poll.register(wakeup, select.POLLIN)

    def __bool__(self) -> bool:
        # Of the signals that the kernel has not delivered yet, sigpending(2) lists blocked ones only.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        pending = signal.sigpending()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # The order matters: a signal stops being pending before its number is in the pipe.
        return bool(pending & self._numbers) or bool(self._poll.poll(0))


@contextmanager
def interruption_deferred(on_signal: Callable[[], object]) -> Iterator[SignalArrival]:
    """Defer the signals that end the program to the end of the block, in which any thread may ask for their arrival.

    The main thread's handler may run late because of other threads, so threads ask the SignalArrival. The handler calls
    `on_signal` once, which may interrupt any other Python code of the main thread.
    """
    arrived: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)
        if len(arrived) == 1:
            on_signal()

    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        with handled_by(note) as handled:
            yield SignalArrival(reading, handled)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        if arrived:
            signal.raise_signal(arrived[0])


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[frozenset[int]]:
    """Set the signals' handler for the block. Ignored signals stay ignored; the other signals are yielded."""
    handled = frozenset(number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN)
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield handled
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)
