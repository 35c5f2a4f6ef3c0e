"""The queue of calls for the lock of a network for which enough workers wait already: the parent keeps them meanwhile.

Such a call has done nothing yet. The worker that has it read its stdin, and hands all of it to the parent. The parent
gives it to a worker again when fewer calls of that network are at work.
"""

import marshal
import os
import resource
import select
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from .handoff import Handoff
from .process import CallerState
from .protocol import CALLER_DESCRIPTORS, LauncherRequest
from .slots import LOCKED_NETWORK_SLOTS, Slot, Slots

_FILES = 2 + CALLER_DESCRIPTORS
"""Of a call: its connection, a file with its request and stdin, and the caller's folder and namespaces."""
_SPARE_FILES = 256
"""Which the parent leaves for other purposes, and for the calls on their way to it."""
_NETWORK = struct.Struct("=Q")


def queue_call(handoff: Handoff, stdin: bytes, network: int, enqueue: socket.socket) -> bool:
    """Hand a call to the parent; False if that takes none. Its files here are still to be closed."""
    try:
        memory = os.memfd_create("queued call")
    except OSError:
        return False
    try:
        with open(memory, "wb", closefd=False) as file:
            marshal.dump((tuple(handoff.request), handoff.caller.root, stdin), file)
        files = [handoff.connection.fileno(), memory, *handoff.files]
        socket.send_fds(enqueue, [_NETWORK.pack(network)], files, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False
    finally:
        os.close(memory)
    return True


def take_queued(dequeue: socket.socket, slot: Slot) -> Handoff | None:
    """Return a call that the parent hands out; None to end. Raises BlockingIOError if there is none."""
    message, files, *_ = socket.recv_fds(dequeue, _NETWORK.size, _FILES, socket.MSG_CMSG_CLOEXEC)
    if not message:
        return None
    slot.dequeued += 1
    (slot.network,) = _NETWORK.unpack(message)
    connection, memory, *handed_over = files
    handoff = Handoff(socket.socket(fileno=connection), slot)
    handoff.own([memory, *handed_over])
    handoff.files = handed_over
    content = os.pread(memory, os.fstat(memory).st_size, 0)
    request, root, handoff.queued_stdin = marshal.loads(content)  # noqa: S302 -- a worker of this server has written it
    handoff.request = LauncherRequest(*request)
    cwd, network, mounts = handed_over
    handoff.caller = CallerState(cwd, network, mounts, handoff.request.umask, root)
    return handoff


class _QueuedCall(NamedTuple):
    """A queued call."""

    connection: int
    files: list[int]
    """With the connection."""
    network: int


class CallQueue:
    """The parent's side: the calls that it keeps, oldest first."""

    def __init__(self, slots: Slots, poll: select.poll) -> None:
        """Begin with no calls, and as many open files as are allowed; the parent waits for `poll`."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._most = (min(most, 1 << 20) - _SPARE_FILES) // _FILES
        self._slots = slots
        self._networks: dict[int, deque[_QueuedCall]] = {}
        self._calls: dict[int, _QueuedCall] = {}
        self._handed_out = 0
        kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        self._incoming, self.enqueue = socket.socketpair(socket.AF_UNIX, kind)
        self.dequeue, self._outgoing = socket.socketpair(socket.AF_UNIX, kind)
        self._poll = poll
        self._poll.register(self._incoming, select.POLLIN)
        self._publish()

    def __len__(self) -> int:
        return len(self._calls)

    def close_parent_ends(self) -> None:
        """In a worker: close the parent's ends."""
        self._incoming.close()
        self._outgoing.close()

    def end_idle_workers(self) -> None:
        """Have the workers end that have nothing to do, now and later."""
        self._outgoing.close()

    def end_one_idle_worker(self) -> None:
        """Have one worker end that has nothing to do."""
        with suppress(BlockingIOError):
            self._outgoing.send(b"")

    def receive(self) -> None:
        """Receive the calls that workers hand over; drop those whose launcher has gone."""
        with suppress(BlockingIOError):
            while True:
                message, files, *_ = socket.recv_fds(self._incoming, _NETWORK.size, _FILES, socket.MSG_CMSG_CLOEXEC)
                if not message:
                    break
                call = _QueuedCall(files[0], files, *_NETWORK.unpack(message))
                self._calls[call.connection] = call
                self._networks.setdefault(call.network, deque()).append(call)
                self._poll.register(call.connection, select.POLLIN)
        # A launcher says nothing but that a signal ends it; it ends then, and nothing has been done for it.
        for fd, _ in self._poll.poll(0):
            if fd in self._calls:
                call = self._calls[fd]
                self._networks[call.network].remove(call)
                self._forget(call)
        self._publish()

    def hand_out(self) -> None:
        """Give workers the calls that may go on."""
        on_their_way = self._handed_out - self._slots.dequeued()
        for network, calls in list(self._networks.items()):
            free = LOCKED_NETWORK_SLOTS - self._slots.of_network(network)[0] - on_their_way
            while calls and free > 0:
                call = calls.popleft()
                try:
                    socket.send_fds(self._outgoing, [_NETWORK.pack(network)], call.files, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    calls.appendleft(call)
                    return
                self._handed_out += 1
                free -= 1
                self._forget(call)
            if not calls:
                del self._networks[network]
        self._publish()

    def _forget(self, call: _QueuedCall) -> None:
        del self._calls[call.connection]
        self._poll.unregister(call.connection)
        for fd in call.files:
            os.close(fd)

    def _publish(self) -> None:
        parent, queued = self._slots.parent, len(self._calls)
        parent.room, parent.queued = max(self._most - queued, 0), queued
