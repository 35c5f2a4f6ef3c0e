"""Time-outs of a plugin: a verb that never ends is executed a few times, and then no more."""

from collections import Counter
from threading import Lock
from typing import Final, NamedTuple

from harness.libcni.execute import Execution

_ENOUGH: Final = 3
"""Time-outs of a verb that never ended by itself."""
_ALTOGETHER: Final = 12
"""Time-outs of a verb that sometimes ends by itself."""


class Hang(NamedTuple):
    """A verb that was given up: the ID of the check that reports it, and the number of its time-outs."""

    verb: str
    cause: str
    times: int

    def __str__(self) -> str:
        return f"{self.verb} came to no end in {self.times} executions"


class HangingError(Exception):
    """An execution that was refused: it would take the whole time limit once more."""

    def __init__(self, hang: Hang) -> None:
        super().__init__(str(hang))
        self.hang = hang


class Hangs:
    """Counts the time-outs of one plugin, for all checks at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._timed_out: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._causes: dict[str, str] = {}

    def note(self, execution: Execution) -> None:
        """Count an execution."""
        with self._lock:
            if execution.timed_out:
                self._timed_out[execution.verb] += 1
            else:
                self._ended.add(execution.verb)

    def has_only_hung(self, verb: str) -> bool:
        """Tell whether the verb was executed, and never ended by itself."""
        with self._lock:
            return self._timed_out[verb] > 0 and verb not in self._ended

    def report(self, verb: str, check: str) -> None:
        """Remember the first check whose finding says that a verb hangs: a verb is given up only then."""
        with self._lock:
            self._causes.setdefault(verb, check)

    def demand_end(self, verb: str) -> None:
        """Raise HangingError if the verb is given up, or all verbs are since none has ever ended."""
        if hang := self._of(verb):
            raise HangingError(hang)

    def _of(self, verb: str) -> Hang | None:
        with self._lock:
            times, altogether = self._timed_out[verb], self._timed_out.total()
            if verb in self._causes and times >= (_ALTOGETHER if verb in self._ended else _ENOUGH):
                return Hang(verb, self._causes[verb], times)
            if self._causes and not self._ended and altogether >= _ENOUGH:
                return Hang("each verb", next(iter(self._causes.values())), altogether)
        return None
