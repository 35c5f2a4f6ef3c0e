"""The places of the workers: the state of each one, in memory that all processes of a server share.

A worker writes its own place alone; the parent and the other workers read it. So nobody needs to be told of an ordinary
request. The parent is told, by a byte in a pipe, only if it may have something to do.
"""

import mmap
import os
from contextlib import suppress
from ctypes import Structure, c_uint64, sizeof
from time import monotonic_ns

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


_UNANSWERED = (State.RUNNING, State.WAITING, State.LOCK)
_COLUMNS = ("state", "since", "network", "served", "unparked", "began", "attachment")


class Place(Structure):
    """One worker's place; all zeros if it is free."""

    state: int
    since: int
    """When the state began, in nanoseconds of time.monotonic_ns."""
    network: int
    """Which network the call is for, as a number; 0: not known."""
    served: int
    """How many requests the worker has had."""
    unparked: int
    """How many calls its workers took from the parent, since the start of the server."""
    began: int
    """When the request began, in nanoseconds of time.monotonic_ns."""
    attachment: int
    """Which attachment an ADD or DEL is for, as a number; 0: no such call."""
    places: "Places"
    _fields_ = tuple((name, c_uint64) for name in _COLUMNS)

    def enter(self, state: int) -> int:
        """Set the state, and have the parent look if it should; return the state before."""
        before, self.since, self.state = self.state, monotonic_ns(), state
        if state > State.IDLE and state != before:
            self.places.ring_if_busy()
        return before

    def begin(self) -> None:
        """Count a request, which begins now."""
        self.served += 1
        self.attachment, self.began = 0, monotonic_ns()

    def clear(self) -> None:
        """Leave the place free."""
        self.network = self.served = self.began = self.attachment = self.since = 0
        self.state = State.NONE


class Parent(Structure):
    """The parent's numbers, before all places."""

    watched: int
    """Whether the parent looks by itself every now and then."""
    looked: int
    """When the parent was asked last to look at the installation, in nanoseconds of time.monotonic_ns."""
    room: int
    """How many calls the parent can take in."""
    parked: int
    """How many calls the parent has."""
    _fields_ = tuple((name, c_uint64) for name in ("watched", "looked", "room", "parked"))


class Places:
    """All places, as the parent and each worker see them."""

    def __init__(self, workers: int, most: int, bell: int) -> None:
        """Make places for `most` workers, of which there are at least `workers`; `bell` is the pipe to the parent."""
        memory = mmap.mmap(-1, sizeof(Parent) + most * sizeof(Place))
        self.parent = Parent.from_buffer(memory)
        self._words = memoryview(memory).cast("Q")[sizeof(Parent) // 8 :]
        self._places = [Place.from_buffer(memory, sizeof(Parent) + number * sizeof(Place)) for number in range(most)]
        for place in self._places:
            place.places = self
        self._workers = workers
        self._processors = len(os.sched_getaffinity(0))
        self.most = most
        self._bell = bell

    def take(self) -> Place | None:
        """Return a free place for a worker that is about to be forked."""
        for place in self._places:
            if place.state == State.NONE:
                place.enter(State.IDLE)
                return place
        return None

    def _column(self, name: str) -> list[int]:
        """Return one number of each place."""
        return self._words[_COLUMNS.index(name) :: len(_COLUMNS)].tolist()

    def states(self) -> list[int]:
        """Return the state of each place."""
        return self._column("state")

    def unparked(self) -> int:
        """Return how many calls workers took from the parent."""
        return sum(self._column("unparked"))

    def wanted(self) -> int:
        """Return how many workers there should be: the usual number, and one for each that waits in the kernel.

        While all processors have a worker that runs, one more would only take their time.
        """
        states, now = self.states(), monotonic_ns()
        ages = [(state, now - begin) for state, begin in zip(states, self._column("since"), strict=True)]
        if sum(state == State.RUNNING and age < _RUN_NS for state, age in ages) >= self._processors:
            return max(self._workers, len(states) - states.count(State.NONE))
        waiting = sum(
            state == State.ENDING or (state in (State.WAITING, State.LOCK) and age >= _LOOK_NS) for state, age in ages
        )
        return min(self._workers + waiting, self.most)

    def of_network(self, network: int) -> tuple[int, bool]:
        """Return how many calls of a network are not answered yet, and whether one of them waits for its lock."""
        pairs = zip(self.states(), self._column("network"), strict=True)
        calls = [state for state, its in pairs if its == network and state in _UNANSWERED]
        return len(calls), State.LOCK in calls

    def has_earlier(self, place: Place, attachment: int) -> bool:
        """Tell whether a call before that in `place` has no answer yet: of an attachment, or of any if it is 0."""
        return any(
            other.state in _UNANSWERED
            and other.began < place.began
            and (other.attachment == attachment if attachment else other.attachment)
            for other in self._places
        )

    def is_alone(self) -> bool:
        """Tell whether at most one worker has work."""
        return sum(state > State.IDLE for state in self.states()) <= 1

    def last_change(self) -> float:
        """Return when a worker has begun or ended something, in seconds of time.monotonic; 0 without a worker."""
        return max(self._column("since")) / 1e9

    def ring(self) -> None:
        """Have the parent look."""
        with suppress(OSError):  # it has enough to read already, or has ended
            os.write(self._bell, b"!")

    def ring_if_busy(self) -> None:
        """Have the parent look if no worker is idle, and some wait: it may have to fork more of them."""
        states = self.states()
        if State.IDLE in states:
            return
        waits = (State.WAITING in states or State.LOCK in states) and not self.parent.watched
        if waits or (State.ENDING in states and self.wanted() > self.most - states.count(State.NONE)):
            self.ring()

    def ring_if_parked(self) -> None:
        """Have the parent look if it has a call that may go on now."""
        if self.parent.parked:
            self.ring()

    def ring_for_installation(self) -> None:
        """Have the parent look at the installation, once in a second with requests."""
        now = monotonic_ns()
        if now - self.parent.looked >= _SECOND_NS:
            self.parent.looked = now
            self.ring()
