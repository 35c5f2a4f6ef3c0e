"""Starting a program whose file is perhaps still open for writing."""

import errno

from fast_stdlib.typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between attempts to execute a file that another process has open for writing."""


def start_program(start: "Callable[[], T]", pause: "Callable[[float], object]") -> "T":
    """Call `start`, again after each pause while the file is busy (ETXTBSY). Raises its OSError.

    A plugin is busy while it is upgraded in place, or while a process that was forked meanwhile has the file open.
    libcni waits for it, too.
    """
    for seconds in _PAUSES:
        try:
            return start()
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
        pause(seconds)
    return start()
