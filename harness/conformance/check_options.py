"""The options of a run's checks, with what all checks of a plugin share: the request to stop, time-outs, leftovers."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from harness.conformance.threshold import DEFAULT_THRESHOLD, Threshold
from harness.libcni.execute import Execution

_ENOUGH: Final = 3
"""Time-outs of a verb that never ended by itself."""
_ALTOGETHER: Final = 12
"""Time-outs of a verb that sometimes ends by itself."""


class StoppedError(Exception):
    """A check was broken off; nothing is known of the plugin."""


class StopRequest:
    """Tells how a run is to end early: first without new checks, then without waiting for those that run.

    Threads only read it, and a signal handler may write it.
    """

    def __init__(self) -> None:
        self.is_requested = False
        """No check begins any more."""
        self.is_urgent = False
        """Running executions are killed, and their checks broken off."""

    def ask(self) -> None:
        """Ask for the end; a second time, ask for it at once."""
        self.is_urgent = self.is_requested
        self.is_requested = True

    def raise_if_urgent(self) -> None:
        """Raise StoppedError if the end is urgent."""
        if self.is_urgent:
            raise StoppedError


class HangingError(Exception):
    """An execution that was refused, as it would take the time limit once more; a check, `cause`, reports the hang."""

    def __init__(self, verb: str, times: int, cause: str) -> None:
        super().__init__(f"{verb} came to no end in {times} executions")
        self.cause = cause


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
        with self._lock:
            times, altogether = self._timed_out[verb], self._timed_out.total()
            if verb in self._causes and times >= (_ALTOGETHER if verb in self._ended else _ENOUGH):
                raise HangingError(verb, times, self._causes[verb])
            # No verb has ended yet: the program itself hangs, whatever it is asked.
            if self._causes and not self._ended and altogether >= _ENOUGH:
                raise HangingError("each verb", altogether, next(iter(self._causes.values())))


@dataclass(frozen=True)
class CheckOptions:
    """A check's options: its time limit, the preparation of its nodes, further evidence, the number of kills."""

    timeout: float = 30.0
    """Seconds that one execution may take."""
    watched: tuple[Path, ...] = ()
    """Folders that are evidence besides the node's /var/lib/cni."""
    preparation: Path | None = None
    """A program that is executed on each node before everything else."""
    kills: int = 8
    """The number of kills in the check that kills the plugin."""
    killers: int = 1
    """The number of these at once."""
    corrects_version: bool = False
    """Checks see results with the cniVersion of the request: that it is wrong is another check's finding."""
    hangs: Hangs = field(default_factory=Hangs, compare=False)
    """The time-outs of the plugin so far."""
    usual_leftovers: dict[str, Counter[tuple[str, str, str]]] = field(default_factory=dict, compare=False)
    """What an ordinary ADD and DEL of the plugin leave, by version of the list, as far as it is known."""
    stop: StopRequest = field(default_factory=StopRequest, compare=False)
    """Ends a run before its last check."""
    keeps: bool = False
    """Whether the node of a failed check stays, with everything on it."""
    threshold: Threshold = DEFAULT_THRESHOLD
    """Which violations are failures; the others are warnings."""
    traffic: bool = False
    """Whether packets that the node forwards flow during each check."""
    pod_interface: bool = False
    """Whether the containers of an IPAM plugin have their interface, on one network with the node."""

    def for_next_plugin(self) -> "CheckOptions":
        """Return these options with nothing known of a plugin yet."""
        return replace(self, hangs=Hangs(), usual_leftovers={})
