"""Growing pauses between attempts."""

import random
from typing import Final

FIRST: Final = 0.8
MOST: Final = 30.0
"""Seconds; both are those of client-go's reflector."""


class Backoff:
    """Pauses in seconds, each twice the one before, up to `most`, and each lengthened by a random part of itself.

    The random part keeps the agents of many nodes from asking at the same moment when a server is back.
    """

    def __init__(self, first: float = FIRST, most: float = MOST) -> None:
        self._first = first
        self._most = most
        self._pause = first

    def next(self, at_least: float = 0.0) -> float:
        """Return the next pause; `at_least` is the pause that a server asks for."""
        pause, self._pause = self._pause, min(self._pause * 2, self._most)
        return max(pause, at_least) * (1 + random.random())  # noqa: S311 -- no secret

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._pause = self._first
