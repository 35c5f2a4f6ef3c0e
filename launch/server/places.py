"""The places of the workers: the state of each one, in memory that all processes of a server share.

A worker writes its own place alone; the parent and the other workers read it. So nobody needs to be told of an ordinary
request. The parent is told, by a byte in a pipe, only if it may have something to do.
"""

import mmap
import os
from contextlib import suppress
from time import monotonic_ns

__all__ = ["CROWD", "LOOK_SECONDS", "Place", "Places", "State"]

CROWD = 8
"""Places that calls of one network have at most while one of them waits for the network's lock."""
LOOK_SECONDS = 0.01
"""Between two looks of the parent while all workers are busy and some wait. A shorter wait takes no place."""

_LOOK_NS = round(LOOK_SECONDS * 1e9)
_RUN_NS = 100_000_000
"""A worker that says for longer that it runs is taken to wait."""
_SECOND_NS = 1_000_000_000


class State:
    """The states of a worker."""

    NONE, IDLE, RUNNING, WAITING, LOCK, ENDING = range(6)
    """WAITING is for the caller or another process, LOCK for a network's lock; ENDING is answered, but not over."""


# Words of a place, and before all places those of the parent.
_WORDS = 8
_STATE, _SINCE, _NETWORK, _SERVED, _UNPARKED, _BEGAN, _ATTACHMENT = range(7)
_WATCHED, _LOOKED, _ROOM, _PARKED = range(4)


class Places:
    """All places, as the parent and each worker see them."""

    def __init__(self, workers: int, most: int, bell: int) -> None:
        """Make places for `most` workers, of which there are at least `workers`; `bell` is the pipe to the parent."""
        self._words = memoryview(mmap.mmap(-1, 8 * _WORDS * (most + 1))).cast("Q")
        self._workers = workers
        self._processors = len(os.sched_getaffinity(0))
        self.most = most
        self._bell = bell

    def take(self) -> "Place | None":
        """Return a free place for a worker that is about to be forked."""
        for number, state in enumerate(self.states()):
            if state == State.NONE:
                place = Place(self, (number + 1) * _WORDS)
                place.clear()
                place.enter(State.IDLE)
                return place
        return None

    def states(self) -> list[int]:
        """Return the state of each place."""
        return self._words[_WORDS + _STATE :: _WORDS].tolist()

    def wanted(self) -> int:
        """Return how many workers there should be: the usual number, and one for each that waits in the kernel.

        While all processors have a worker that runs, one more would only take their time.
        """
        states, since, now = self.states(), self._words[_WORDS + _SINCE :: _WORDS].tolist(), monotonic_ns()
        ages = [(state, now - begin) for state, begin in zip(states, since, strict=True)]
        if sum(state == State.RUNNING and age < _RUN_NS for state, age in ages) >= self._processors:
            return max(self._workers, len(states) - states.count(State.NONE))
        waiting = sum(
            state == State.ENDING or (state in (State.WAITING, State.LOCK) and age >= _LOOK_NS) for state, age in ages
        )
        return min(self._workers + waiting, self.most)

    def of_network(self, network: int) -> tuple[int, bool]:
        """Return how many calls of a network are not answered yet, and whether one of them waits for its lock."""
        states = self.states()
        calls = [
            states[number]
            for number, its in enumerate(self._words[_WORDS + _NETWORK :: _WORDS].tolist())
            if its == network and states[number] in (State.RUNNING, State.WAITING, State.LOCK)
        ]
        return len(calls), State.LOCK in calls

    def has_earlier(self, place: "Place", attachment: int) -> bool:
        """Tell whether a call before that in `place` has no answer yet: of an attachment, or of any if it is 0."""
        words, began = self._words, place.began
        for number, state in enumerate(self.states()):
            start = (number + 1) * _WORDS
            if state in (State.RUNNING, State.WAITING, State.LOCK) and words[start + _BEGAN] < began:
                its = words[start + _ATTACHMENT]
                if its and (its == attachment or not attachment):
                    return True
        return False

    def is_alone(self) -> bool:
        """Tell whether at most one worker has work."""
        return sum(state > State.IDLE for state in self.states()) <= 1

    def last_change(self) -> float:
        """Return when a worker has begun or ended something, in seconds of time.monotonic; 0 without a worker."""
        return max(self._words[_WORDS + _SINCE :: _WORDS].tolist()) / 1e9

    def watch(self, *, on: bool) -> None:
        """Tell the workers whether the parent looks by itself every now and then."""
        self._words[_WATCHED] = on

    def offer(self, room: int, parked: int) -> None:
        """Tell the workers how many calls the parent can take in, and how many it has."""
        self._words[_ROOM], self._words[_PARKED] = max(room, 0), parked

    @property
    def room(self) -> int:
        """How many calls the parent can take in."""
        return self._words[_ROOM]

    @property
    def look_asked(self) -> int:
        """When the parent was asked last to look at the installation."""
        return self._words[_LOOKED]

    def ring(self) -> None:
        """Have the parent look."""
        with suppress(OSError):  # it has enough to read already, or has ended
            os.write(self._bell, b"!")

    def ring_if_busy(self) -> None:
        """Have the parent look if no worker is idle, and some wait: it may have to fork more of them."""
        states = self.states()
        if State.IDLE in states:
            return
        waits = (State.WAITING in states or State.LOCK in states) and not self._words[_WATCHED]
        if waits or (State.ENDING in states and self.wanted() > self.most - states.count(State.NONE)):
            self.ring()

    def ring_if_parked(self) -> None:
        """Have the parent look if it has a call that may go on now."""
        if self._words[_PARKED]:
            self.ring()

    def ring_for_installation(self) -> None:
        """Have the parent look at the installation, once in a second with requests."""
        now = monotonic_ns()
        if now - self._words[_LOOKED] >= _SECOND_NS:
            self._words[_LOOKED] = now
            self.ring()


class Place:
    """One worker's place."""

    def __init__(self, places: Places, start: int) -> None:
        """Name the place that begins at a word."""
        self._places = places
        self._words = places._words  # noqa: SLF001 -- a part of it
        self._start = start

    def clear(self) -> None:
        """Leave the place free."""
        self._words[self._start : self._start + _WORDS] = memoryview(bytes(8 * _WORDS)).cast("Q")

    @property
    def state(self) -> int:
        """The worker's state."""
        return self._words[self._start + _STATE]

    def count_unparked(self) -> None:
        """Count a call that came from the parent."""
        self._words[self._start + _UNPARKED] += 1

    @property
    def unparked(self) -> int:
        """How many calls came from the parent."""
        return self._words[self._start + _UNPARKED]

    @property
    def served(self) -> int:
        """How many requests the worker has had."""
        return self._words[self._start + _SERVED]

    def enter(self, state: int) -> int:
        """Set the state, and have the parent look if it should; return the state before."""
        before = self._words[self._start + _STATE]
        self._words[self._start + _SINCE] = monotonic_ns()
        self._words[self._start + _STATE] = state
        if state > State.IDLE and state != before:
            self._places.ring_if_busy()
        return before

    def begin(self) -> None:
        """Count a request, which begins now."""
        self._words[self._start + _SERVED] += 1
        self._words[self._start + _ATTACHMENT] = 0
        self._words[self._start + _BEGAN] = monotonic_ns()

    @property
    def began(self) -> int:
        """When the request began, in nanoseconds of time.monotonic_ns."""
        return self._words[self._start + _BEGAN]

    @property
    def attachment(self) -> int:
        """Which attachment an ADD or DEL is for, as a number; 0: no such call."""
        return self._words[self._start + _ATTACHMENT]

    @attachment.setter
    def attachment(self, attachment: int) -> None:
        self._words[self._start + _ATTACHMENT] = attachment

    @property
    def network(self) -> int:
        """Which network the call is for, as a number; 0: not known."""
        return self._words[self._start + _NETWORK]

    @network.setter
    def network(self, network: int) -> None:
        self._words[self._start + _NETWORK] = network
