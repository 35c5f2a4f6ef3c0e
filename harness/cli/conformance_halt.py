"""Ctrl-C during a survey: its findings are reported. A second one ends the running checks."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from harness.cli.interruption import handled_by

if TYPE_CHECKING:
    from types import FrameType

    from harness.conformance.halt import Halt

_NOTICE: Final = b"Interrupted: running checks end, then the report is written. Once more, and they are broken off.\n"


class Interruption:
    """The first signal that asked for the end of a survey, if one did."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def reason(self) -> str:
        """The reason for the end of the survey, empty if no signal asked for it."""
        return "" if self.number is None else "interrupted"

    def pass_on(self) -> None:
        """Raise the signal again, for the handler of the whole program, which ends it with the signal's exit code."""
        if self.number is not None:
            signal.raise_signal(self.number)


@contextmanager
def halted_by_signals(halt: "Halt") -> Iterator[Interruption]:
    """Have the signals that end the program halt a survey in the block instead."""
    interruption = Interruption()

    def ask(number: int, frame: "FrameType | None") -> None:
        del frame
        halt.ask()
        if interruption.number is None:
            interruption.number = number
            with suppress(OSError):
                os.write(sys.stderr.fileno(), _NOTICE)  # a signal may interrupt a write through a buffer

    with handled_by(ask):
        yield interruption
