"""A request on its way from a launcher to a worker, until the worker takes its token."""

import os
import select
import socket
import struct
from collections.abc import Container, Iterable
from contextlib import ExitStack
from time import monotonic

from launch import PLUGINS

from .peer import CREDENTIALS_BYTES, Identity, judge
from .process import CallerState
from .protocol import (
    CALLER_DESCRIPTORS,
    DESCRIPTORS,
    GO,
    MAX_REQUEST_BYTES,
    MAX_SHORT_PACKET_BYTES,
    READY,
    TOKEN_BYTES,
    HandoffError,
    LauncherRequest,
    decode_request,
)
from .slots import LOOK_SECONDS, Slot, WorkerState

HANDOFF_SECONDS = 1.0
"""From its connection to its last packet, a launcher may keep a worker waiting for so long together."""

_INT = struct.Struct("i")
_CUT_SHORT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)


class Handoff:
    """A request with its connection and its open files, which are open until `close`."""

    request: LauncherRequest
    caller: CallerState
    queued_stdin: bytes | None = None
    """The stdin of a call that was queued."""

    def __init__(self, connection: socket.socket, slot: Slot) -> None:
        """Begin with a connection that was just accepted."""
        self.connection = connection
        self.files: list[int] = []
        """For `caller`, in the order of the protocol."""
        self.stdin: int | None = None
        self._slot = slot
        self._deadline = monotonic() + HANDOFF_SECONDS
        self._stack = ExitStack()
        self._stack.callback(connection.close)

    def close(self) -> None:
        """Close the connection and all files."""
        self._stack.close()

    def read_request(self, own: Identity, build_id: bytes, others: Container[str]) -> None:
        """Judge who has connected, and only then read the request; `others` are plugins besides ours.

        The caller is judged again if the request was not there yet: it may have given up privileges in between.

        Raises ConnectionError if the launcher has gone, HandoffError, PeerError, OSError.
        """
        is_there = self._has(select.POLLIN)
        self._peer = self._stack.enter_context(judge(self.connection, own))
        packet, files, ancillary = self._receive(MAX_REQUEST_BYTES, DESCRIPTORS)
        if not is_there:
            self._peer.judge(own)
        self._peer.check_credentials(ancillary)
        self.request = decode_request(packet)
        if self.request.build_id != build_id:
            raise HandoffError("a launcher of another installation")
        if self.request.plugin not in PLUGINS and self.request.plugin not in others:
            raise HandoffError(f"no plugin of this suite: {self.request.plugin}")
        if not CALLER_DESCRIPTORS < len(files) <= DESCRIPTORS:
            raise HandoffError(f"{len(files)} file descriptors, {DESCRIPTORS} are due")
        self.files = files[:CALLER_DESCRIPTORS]
        self._token, *stdin = files[CALLER_DESCRIPTORS:]
        self.stdin = stdin[0] if stdin else None
        cwd, network, mounts = self.files
        self.caller = CallerState(cwd, network, mounts, self.request.umask, self._peer.root_inode)

    def take(self) -> None:
        """Make the call this worker's, which must be ready for it. Raises the errors of `read_request`.

        ConnectionError means also that the launcher executes the plugin by itself.
        """
        if self._peer.must_confirm:
            self._peer.check_silence()
            self.connection.send(READY, socket.MSG_NOSIGNAL)
            packet, _, ancillary = self._receive(MAX_SHORT_PACKET_BYTES, 0)
            self._peer.check_credentials(ancillary)
            if packet != GO:
                raise HandoffError(f"not a go: {packet!r}")
        try:
            os.read(self._token, TOKEN_BYTES)
        except BlockingIOError:
            raise ConnectionAbortedError from None

    def is_abandoned(self) -> bool:
        """Tell whether the launcher has ended the connection."""
        return self._has(0)

    def own(self, files: Iterable[int]) -> None:
        """Have these files closed with the handoff."""
        for fd in files:
            self._stack.callback(os.close, fd)

    def _receive(self, size: int, most: int) -> tuple[bytes, list[int], list[tuple[int, int, bytes]]]:
        """Return a packet, the files that came with it, which are the handoff's, and all its ancillary data."""
        space = socket.CMSG_SPACE(most * _INT.size) + CREDENTIALS_BYTES
        now = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        # Most packets are there already: to wait first would be one more system call.
        try:
            packet, ancillary, flags, _ = self.connection.recvmsg(size, space, now)
        except BlockingIOError:
            self._wait()
            packet, ancillary, flags, _ = self.connection.recvmsg(size, space, now)
        files = [
            fd
            for *kind, content in ancillary
            if kind == [socket.SOL_SOCKET, socket.SCM_RIGHTS]
            for (fd,) in _INT.iter_unpack(content)
        ]
        self.own(files)
        if not packet:
            raise ConnectionAbortedError
        if flags & _CUT_SHORT:
            raise HandoffError(f"a packet of more than {size} bytes or {most} files")
        return packet, files, ancillary

    def _has(self, events: int) -> bool:
        """Tell whether one of these events is there, or the end of the connection."""
        poll = select.poll()
        poll.register(self.connection, events)
        return bool(poll.poll(0))

    def _wait(self) -> None:
        """Wait for a packet; one that does not come at once makes this a worker that waits."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        if poll.poll(min(LOOK_SECONDS, self._left()) * 1000):
            return
        before = self._slot.enter(WorkerState.WAITING)
        came = poll.poll(self._left() * 1000)
        self._slot.enter(before)
        if not came:
            raise HandoffError(f"nothing was said within {HANDOFF_SECONDS:g} s")

    def _left(self) -> float:
        return max(0.0, self._deadline - monotonic())
