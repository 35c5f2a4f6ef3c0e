"""The slots of the workers: the state of each one, in memory that all processes of a server share.

A worker writes its own slot alone; the parent and the other workers read it. So no other process is told of an ordinary
request. The parent is told, by a byte in a pipe, only if it may have something to do.
"""

import mmap
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from ctypes import Structure, c_uint64, sizeof
from time import monotonic_ns
from typing import NamedTuple

from .peer import Identity

LOCKED_NETWORK_SLOTS = 8
"""Slots that calls of one network have at most while one of them waits for the network's lock."""
LOOK_SECONDS = 0.01
"""Between two looks of the parent while all workers are busy and some wait. A shorter wait does not count as one."""

_LOOK_NS = round(LOOK_SECONDS * 1e9)
_RUN_NS = 100_000_000
"""A worker that says for longer that it runs is taken to wait."""
_SECOND_NS = 1_000_000_000


class WorkerState:
    """The states of a worker."""

    NONE, IDLE, RUNNING, WAITING, LOCK, ENDING = range(6)
    """WAITING is for the caller or another process, LOCK for a network's lock; ENDING is answered, but not over."""


_UNANSWERED = (WorkerState.RUNNING, WorkerState.WAITING, WorkerState.LOCK)
_COLUMNS = ("state", "since", "network", "served", "dequeued", "began", "attachment")


class Slot(Structure):
    """One worker's slot; all zeros if it is free."""

    state: int
    since: int
    """When the state began, in nanoseconds of time.monotonic_ns."""
    network: int
    """Which network the call is for, as a number; 0: not known."""
    served: int
    """How many requests the worker has had."""
    dequeued: int
    """How many calls its workers took from the parent, since the start of the server."""
    began: int
    """When the request began, in nanoseconds of time.monotonic_ns."""
    attachment: int
    """Which attachment an ADD or DEL is for, as a number; 0: no such call."""
    slots: "Slots"
    _fields_ = tuple((name, c_uint64) for name in _COLUMNS)

    def enter(self, state: int) -> int:
        """Set the state, and have the parent look if it should; return the state before."""
        before, self.since, self.state = self.state, monotonic_ns(), state
        if state > WorkerState.IDLE and state != before:
            self.slots.wake_if_busy()
        return before

    def begin(self) -> None:
        """Count a request, which begins now."""
        self.served += 1
        self.attachment, self.began = 0, monotonic_ns()

    def clear(self) -> None:
        """Leave the slot free."""
        self.network = self.served = self.began = self.attachment = self.since = 0
        self.state = WorkerState.NONE


class ParentSlot(Structure):
    """The parent's numbers, before all slots."""

    watched: int
    """Whether the parent looks by itself every now and then."""
    looked: int
    """When the parent was asked last to look at the installation, in nanoseconds of time.monotonic_ns."""
    room: int
    """How many calls the parent can take in."""
    queued: int
    """How many calls the parent has."""
    _fields_ = tuple((name, c_uint64) for name in ("watched", "looked", "room", "queued"))


class Slots:
    """All slots, as the parent and each worker see them."""

    def __init__(self, workers: int, most: int, wakeup: int) -> None:
        """Make slots for `most` workers, of which there are at least `workers`; `wakeup` is the pipe to the parent."""
        memory = mmap.mmap(-1, sizeof(ParentSlot) + most * sizeof(Slot))
        self.parent = ParentSlot.from_buffer(memory)
        self._words = memoryview(memory).cast("Q")[sizeof(ParentSlot) // 8 :]
        self._slots = [Slot.from_buffer(memory, sizeof(ParentSlot) + number * sizeof(Slot)) for number in range(most)]
        for slot in self._slots:
            slot.slots = self
        self._workers = workers
        self._processors = len(os.sched_getaffinity(0))
        self.most = most
        self._wakeup = wakeup

    def take(self) -> Slot | None:
        """Return a free slot for a worker that is about to be forked."""
        for slot in self._slots:
            if slot.state == WorkerState.NONE:
                slot.enter(WorkerState.IDLE)
                return slot
        return None

    def _column(self, name: str) -> list[int]:
        """Return one number of each slot."""
        # One slice of the memory, not an attribute of each slot: every request asks for some of these.
        return self._words[_COLUMNS.index(name) :: len(_COLUMNS)].tolist()

    def states(self) -> list[int]:
        """Return the state of each slot."""
        return self._column("state")

    def dequeued(self) -> int:
        """Return how many calls workers took from the parent."""
        return sum(self._column("dequeued"))

    def wanted(self) -> int:
        """Return how many workers there should be: the usual number, and one for each that waits in the kernel.

        While all processors have a worker that runs, one more would only take their time.
        """
        states, now = self.states(), monotonic_ns()
        ages = [(state, now - begin) for state, begin in zip(states, self._column("since"), strict=True)]
        if sum(state == WorkerState.RUNNING and age < _RUN_NS for state, age in ages) >= self._processors:
            return max(self._workers, len(states) - states.count(WorkerState.NONE))
        waiting = sum(
            state == WorkerState.ENDING or (state in (WorkerState.WAITING, WorkerState.LOCK) and age >= _LOOK_NS)
            for state, age in ages
        )
        return min(self._workers + waiting, self.most)

    def of_network(self, network: int) -> tuple[int, bool]:
        """Return how many calls of a network are not answered yet, and whether one of them waits for its lock."""
        pairs = zip(self.states(), self._column("network"), strict=True)
        calls = [state for state, its in pairs if its == network and state in _UNANSWERED]
        return len(calls), WorkerState.LOCK in calls

    def has_earlier(self, slot: Slot, attachment: int) -> bool:
        """Tell whether a call before that in `slot` has no answer yet: of an attachment, or of any if it is 0."""
        return any(
            other.state in _UNANSWERED
            and other.began < slot.began
            and (other.attachment == attachment if attachment else other.attachment)
            for other in self._slots
        )

    def is_alone(self) -> bool:
        """Tell whether at most one worker has work."""
        return sum(state > WorkerState.IDLE for state in self.states()) <= 1

    def last_change(self) -> float:
        """Return when a worker has begun or ended something, in seconds of time.monotonic; 0 without a worker."""
        return max(self._column("since")) / 1e9

    def wake(self) -> None:
        """Have the parent look."""
        with suppress(OSError):  # it has enough to read already, or has ended
            os.write(self._wakeup, b"!")

    def wake_if_busy(self) -> None:
        """Have the parent look if no worker is idle, and some wait: it may have to fork more of them."""
        states = self.states()
        if WorkerState.IDLE in states:
            return
        waits = (WorkerState.WAITING in states or WorkerState.LOCK in states) and not self.parent.watched
        if waits or (WorkerState.ENDING in states and self.wanted() > self.most - states.count(WorkerState.NONE)):
            self.wake()

    def wake_if_queued(self) -> None:
        """Have the parent look if it has a call that may go on now."""
        if self.parent.queued:
            self.wake()

    def wake_for_installation(self) -> None:
        """Have the parent look at the installation, once in a second with requests."""
        now = monotonic_ns()
        if now - self.parent.looked >= _SECOND_NS:
            self.parent.looked = now
            self.wake()


class Shared(NamedTuple):
    """Values that all workers of a server share."""

    build_id: bytes
    identity: Identity
    others: Mapping[str, str]
    """The plugins of other distributions, as for `launch.plugin_list.load`."""
    limit_seconds: int
    """For one call."""
    slots: Slots
    listening: socket.socket | None
    """None if nothing more is to be accepted."""
    dequeue: socket.socket
    """Queued calls come from here; an empty message, or the end, tells a worker to end."""
    enqueue: socket.socket
    """Calls to be queued go in here."""
    drain: int
    """A pipe: at its end nothing more is to be accepted."""
