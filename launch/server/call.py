"""Carrying out a call in a worker, as the launcher's own process would, and answering it."""

import fcntl
import json
import os
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

from launch.launcher import find_plugin
from launch.plugin_list import load
from skel.dispatch import Outcome, dispatch
from skel.interruption import Interruption, InterruptionError
from skel.plugin import Context, OpenSockets
from skel.process import read_all, read_promptly

from .call_queue import queue_call
from .handoff import Handoff
from .protocol import (
    MAX_SHORT_PACKET_BYTES,
    PIECE_BYTES,
    HandoffError,
    decode_environment,
    decode_signal,
    encode_answer,
)
from .slots import LOCKED_NETWORK_SLOTS, Shared, Slot, WorkerState

_UNDO_SECONDS = 20
"""For a call to take back its steps, after a signal or its time limit."""
_ANSWER_SECONDS = struct.pack("@ll", 10, 0)
"""For a launcher that does not take a long answer: struct timeval."""
_ABANDONED_SECONDS = 5.0
"""That a DEL or GC waits for earlier calls. One whose launcher was killed ends when its system call returns."""
_PAUSE_SECONDS = 0.0005
_LOCKING = ("ADD", "DEL", "CHECK", "GC", "REPAIR")
"""The verbs that may wait for a network's lock."""


class ServedCall:
    """One call of a plugin."""

    def __init__(self, handoff: Handoff, slot: Slot, shared: Shared) -> None:
        """Begin with a request that a launcher has handed over to the worker in this slot."""
        self._handoff = handoff
        self._slot = slot
        self._shared = shared
        self._environ = decode_environment(handoff.request.environment)
        self._stdin = b""
        self._is_queued = False
        self._interruption = _Interruption(slot, self._note_network, _UNDO_SECONDS)

    def carry_out(self, cancellation: "Cancellation", open_sockets: OpenSockets) -> str:
        """Carry it out and answer; return why the process cannot be trusted after it, empty if it can.

        A call that was queued is not answered.
        """
        others = self._shared.others
        context = Context(self._interruption, lambda path: find_plugin(path, others), open_sockets)
        plugin = load(self._handoff.request.plugin, others)
        cancellation.begin(self._handoff.connection, self._interruption)
        try:
            outcome = dispatch(plugin, self._environ, self._read_stdin, context)
        finally:
            self._interruption.settle()
            cancellation.stop()
        if self._is_queued:
            return ""
        if context.is_pending:
            self._slot.enter(WorkerState.ENDING)
        with suppress(OSError):  # the launcher was killed meanwhile
            self._answer(outcome)
        self._handoff.connection.close()
        context.finish()
        if self._interruption.is_requested:
            return "a call was ended before its time"
        return "" if context.is_sound else "after an unforeseen exception"

    def _read_stdin(self) -> bytes:
        """Return the caller's stdin. Raises OSError, and InterruptionError if the call is queued."""
        if self._environ.get("CNI_COMMAND") in ("ADD", "DEL"):
            attachment = self._environ.get("CNI_CONTAINERID"), self._environ.get("CNI_IFNAME")
            # Of 64 bits, as slots have them. Forked processes share the hash seed: equal names have equal numbers.
            self._slot.attachment = hash(attachment) & (1 << 64) - 1
        if self._handoff.queued_stdin is not None:
            self._stdin = self._handoff.queued_stdin
            self._wait_for_earlier_calls()
            return self._stdin
        if self._environ.get("CNI_COMMAND") == "VERSION":
            return read_promptly(self._handoff.stdin)
        self._stdin = read_all(self._handoff.stdin)
        self._wait_for_earlier_calls()
        if self._environ.get("CNI_COMMAND") in _LOCKING and not self._shared.slots.is_alone():
            self._note_network()
            calls, is_locked = self._shared.slots.of_network(self._slot.network)
            has_room = self._shared.slots.parent.room > self._shared.slots.most
            if is_locked and calls > LOCKED_NETWORK_SLOTS and has_room and self._queue():
                raise InterruptionError("queued")
        return self._stdin

    def _wait_for_earlier_calls(self) -> None:
        """Wait for earlier calls: a DEL for those of its attachment, a GC for all. Their launchers may be dead.

        A worker notices the end of its launcher between two system calls. The runtime goes on at once.
        """
        verb, slots = self._environ.get("CNI_COMMAND"), self._shared.slots
        if verb not in ("DEL", "GC") or slots.is_alone():
            return
        deadline = monotonic() + _ABANDONED_SECONDS
        with self._interruption.waiting():
            while slots.has_earlier(self._slot, self._slot.attachment) and monotonic() < deadline:
                sleep(_PAUSE_SECONDS)

    def _queue(self) -> bool:
        self._is_queued = not self._interruption.is_requested and queue_call(
            self._handoff, self._stdin, self._slot.network, self._shared.enqueue
        )
        return self._is_queued

    def _note_network(self) -> None:
        """Note the network's name in the worker's slot, as a number; without a name nothing is noted."""
        if self._slot.network:
            return
        with suppress(ValueError, AttributeError, RecursionError, TypeError):
            self._slot.network = hash(json.loads(self._stdin).get("name")) & (1 << 64) - 1

    def _answer(self, outcome: Outcome) -> None:
        connection = self._handoff.connection
        if len(outcome.stdout) + len(outcome.stderr) > PIECE_BYTES:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ANSWER_SECONDS)
        for packet in encode_answer(outcome.code, outcome.stderr, outcome.stdout):
            connection.send(packet, socket.MSG_NOSIGNAL)
        # Closed with unread bytes, the connection would be reset, and the launcher would lose the end of the answer.
        connection.shutdown(socket.SHUT_RD)
        while connection.recv(MAX_SHORT_PACKET_BYTES):
            pass


class _Interruption(Interruption):
    """One that notes in the worker's slot that the call waits."""

    def __init__(self, slot: Slot, note_network: Callable[[], None], undo_seconds: int) -> None:
        super().__init__(undo_seconds)
        self._slot = slot
        self._note_network = note_network

    def begin_wait(self, *, for_lock: bool) -> int:
        if for_lock:
            self._note_network()
        before = self._slot.enter(WorkerState.LOCK if for_lock else WorkerState.WAITING)
        super().begin_wait(for_lock=for_lock)
        return before

    def end_wait(self, before: int) -> None:
        super().end_wait(before)
        self._slot.enter(before)

    def _limit_undoing(self) -> None:
        # A further signal at the first instruction of the wait's end keeps `end_wait` from being called.
        self._slot.enter(WorkerState.RUNNING)
        super()._limit_undoing()


class Cancellation:
    """The end of a call before its time: a signal ends the launcher, or the call takes too long.

    Both interrupt it, so that an ADD takes back its steps. A launcher that was killed takes nothing back, nor does this
    process: it stops at once. After that its caller executes DEL, which nothing may follow.
    """

    def __init__(self, limit_seconds: int) -> None:
        """Have the process told of both, which has only one of these; `limit_seconds` is for one call."""
        self._limit_seconds = limit_seconds
        self._connection: socket.socket | None = None
        self._interruption = Interruption()
        signal.signal(signal.SIGIO, self._on_packet)
        signal.signal(signal.SIGALRM, self._on_time)

    def begin(self, connection: socket.socket, interruption: Interruption) -> None:
        """Let the end come from now on, also if the launcher has said so already."""
        self._connection, self._interruption = connection, interruption
        signal.alarm(self._limit_seconds)
        # The kernel sends SIGIO for a packet on the connection and for its end.
        fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(connection, fcntl.F_SETFL, os.O_ASYNC)
        # A packet that came before has sent no signal.
        self._on_packet()

    def stop(self) -> None:
        """Let it come no more: the call has its outcome."""
        connection, self._connection = self._connection, None
        signal.alarm(0)
        if connection is not None:
            fcntl.fcntl(connection, fcntl.F_SETFL, 0)

    def _on_packet(self, *_: object) -> None:
        while self._connection is not None and (number := self._received_signal(self._connection)) is not None:
            self._interruption.request(f"ended by signal {number}")

    def _received_signal(self, connection: socket.socket) -> int | None:
        """Return the signal that ends the launcher; None if nothing was said."""
        try:
            return decode_signal(connection.recv(MAX_SHORT_PACKET_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return None
        except (ConnectionError, HandoffError):
            os._exit(0)  # the launcher was killed

    def _on_time(self, *_: object) -> None:
        if self._connection is not None:
            self._interruption.request("took too long, and was ended by the server")
