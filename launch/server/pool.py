"""The workers of a server: as many as there is use for, and another one for each that ends."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NoReturn

from .process import log
from .slots import LOOK_SECONDS, Slot, Slots, WorkerState

_FIRST_PAUSE_SECONDS = 0.1
_LAST_PAUSE_SECONDS = 10.0
"""After a fork that fails, and a worker that dies before it has served; each pause is twice the one before."""
_SURPLUS_SECONDS = 10.0
"""Until workers end that have nothing to do, and that are more than the usual number."""


class Pool:
    """The parent's view of its workers."""

    def __init__(self, slots: Slots, workers: int, become_worker: Callable[[Slot], NoReturn]) -> None:
        """Begin without workers; `become_worker` is called in the new process, with all signals blocked."""
        self._slots = slots
        self._usual = workers
        self._become_worker = become_worker
        self._workers: dict[int, Slot] = {}
        self._served = 0
        self._is_watched = False
        self._pause_seconds = 0.0
        self._fork_again = self._last_needed = monotonic()

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def at_work(self) -> int:
        """How many workers have work."""
        return sum(state > WorkerState.IDLE for state in self._slots.states())

    @property
    def served(self) -> int:
        """How many requests there were."""
        return self._served + sum(slot.served for slot in self._workers.values())

    def fill(self) -> None:
        """Fork the workers that are missing, and look again soon if some may be."""
        if monotonic() >= self._fork_again:
            try:
                while len(self._workers) < self._wanted():
                    self._fork()
            except OSError as error:
                self._pause(f"no worker can be forked: {error}")
        states = self._slots.states()
        self._is_watched = WorkerState.IDLE not in states and (
            WorkerState.WAITING in states or WorkerState.LOCK in states
        )
        self._slots.parent.watched = self._is_watched

    def shrink(self, end_one_idle: Callable[[], object]) -> None:
        """Have surplus workers end, one with each call of `end_one_idle`, if they had nothing to do for long enough."""
        idle, surplus = self._slots.states().count(WorkerState.IDLE), len(self._workers) - self._slots.wanted()
        if idle == 0 or surplus <= 0:
            self._last_needed = monotonic()
        elif monotonic() - self._last_needed >= _SURPLUS_SECONDS:
            self._last_needed = monotonic()
            for _ in range(min(idle, surplus)):
                end_one_idle()

    def next_look(self) -> float:
        """Return when to look again, in seconds of time.monotonic, even without a request."""
        if len(self._workers) < self._wanted():
            return self._fork_again
        if self._is_watched:
            return monotonic() + LOOK_SECONDS
        return self._last_needed + _SURPLUS_SECONDS if len(self._workers) > self._usual else float("inf")

    def reap(self) -> None:
        """Take note of the workers that have ended."""
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = child
                slot = self._workers.pop(pid, None)
                if slot is not None:
                    how = os.waitstatus_to_exitcode(status)
                    if how != 0 and slot.served == 0:
                        self._pause(f"worker {pid} ended without work by {_ending(how)}")
                    elif how != 0:
                        log(f"worker {pid} was ended by {_ending(how)}")
                    self._served += slot.served
                    slot.clear()

    def _wanted(self) -> int:
        return self._usual if WorkerState.IDLE in self._slots.states() else self._slots.wanted()

    def _fork(self) -> None:
        slot = self._slots.take()
        if slot is None:
            return
        # A signal that comes early in the child must not run a handler of the parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(slot)
        except OSError:
            slot.clear()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._workers[pid] = slot
        self._pause_seconds = 0.0

    def _pause(self, why: str) -> None:
        self._pause_seconds = min(max(self._pause_seconds * 2, _FIRST_PAUSE_SECONDS), _LAST_PAUSE_SECONDS)
        self._fork_again = monotonic() + self._pause_seconds
        log(f"{why}; the next one in {self._pause_seconds:.1f} s")


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
