"""A worker of the fork server: forked in advance, it waits for one launcher, does its work as it, and dies.

Until the launcher says go, nothing has been done for it, and whatever goes wrong here ends the connection: then the
launcher executes the plugin by itself. What runs after that is what the launcher would have run.
"""

import fcntl
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from launch.launcher import find_plugin, run
from launch.plugin_list import PLUGINS
from skel.context import Context
from skel.interruption import Interruption

from .circumstances import close_all_but, descriptors_of, die_with, inherited, live_on, take_on, take_streams
from .peer import CREDENTIALS_BYTES, Identity, Peer, PeerError, judge
from .prefault import make_own
from .process_name import name_process
from .protocol import (
    ANSWERING,
    CIRCUMSTANCES,
    GO,
    MAX_REQUEST_BYTES,
    MAX_WORD_BYTES,
    READY,
    STREAMS,
    HandoffError,
    Request,
    decode_request,
    decode_signal,
    encode_exit,
)

__all__ = ["PID_BYTES", "Post", "Terms", "serve", "work"]

PID_BYTES = 4
"""A worker's word to its parent: its process ID."""

_HANDOFF_SECONDS = 10
"""A launcher that takes longer to say what it wants is given up."""
_UNDO_SECONDS = 20
"""What is left to an execution to take back what it did, when its time is over."""


_INT = struct.Struct("i")
_CUT_SHORT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)


class Terms(NamedTuple):
    """On which a server works."""

    build_id: bytes
    identity: Identity
    limit_seconds: int
    """For one execution."""
    null: int
    """/dev/null, open."""


class Post(NamedTuple):
    """What all workers of a server share."""

    terms: Terms
    listening: socket.socket
    busy: int
    """A pipe: a worker writes its process ID when it has got work."""
    parent: int
    memory: Sequence[tuple[int, int]]
    """Addresses and lengths of what an execution writes to."""


def work(post: Post) -> NoReturn:
    """Wait for a launcher and do its work. Signals are blocked when this is called."""
    try:
        serve(_wait_for_launcher(post), post.terms)
    except ConnectionError:
        pass  # the launcher has gone, before the work or after it
    except (HandoffError, PeerError, OSError, ValueError) as error:
        with suppress(OSError):  # stderr is still the server's: it goes last
            os.write(2, f"cni-harness server: left to the launcher: {error}\n".encode())
    finally:
        os._exit(0)


def serve(connection: socket.socket, terms: Terms) -> None:
    """Do the work of the launcher at the other end, as it. Raises what `work` catches."""
    with judge(connection, terms.identity) as peer:
        request = _prepare(connection, terms, peer)
        connection.send(READY, socket.MSG_NOSIGNAL)
        streams = _receive_streams(connection, request, peer)
    if streams is not None:
        take_streams(streams, terms.null)
        _execute(connection, request.plugin, terms.limit_seconds)


def _wait_for_launcher(post: Post) -> socket.socket:
    die_with(post.parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    launchers = select.poll()
    launchers.register(post.listening, select.POLLIN)
    make_own(post.memory, lambda: bool(launchers.poll(0)))
    connection, _ = post.listening.accept()
    # What is accepted is brought to its end, whoever ends all that the server has started, or the server those that it
    # takes to be without work.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # By its default action: before the launcher has said go, a worker may die at any time.
    signal.alarm(_HANDOFF_SECONDS)
    live_on()
    os.write(post.busy, os.getpid().to_bytes(PID_BYTES, sys.byteorder))
    return connection


def _prepare(connection: socket.socket, terms: Terms, peer: Peer) -> Request:
    """Do all that may fail. Raises ConnectionError, HandoffError, PeerError, OSError, ValueError."""
    packet, ancillary, flags = _receive(connection, MAX_REQUEST_BYTES, CIRCUMSTANCES, socket.MSG_CMSG_CLOEXEC)
    if not packet:
        raise ConnectionAbortedError
    peer.check_request(ancillary)
    if flags & _CUT_SHORT:
        raise HandoffError(f"a request of more than {MAX_REQUEST_BYTES} bytes or {CIRCUMSTANCES} files")
    request = decode_request(packet)
    if request.build_id != terms.build_id:
        raise HandoffError("a launcher of another installation")
    if request.plugin not in PLUGINS:
        raise HandoffError(f"no plugin of this suite: {request.plugin}")
    descriptors = descriptors_of(_descriptors(ancillary))
    name_process(request.plugin, "worker of cni-serve")
    take_on(request, descriptors, inherited(peer.pid))
    close_all_but(connection.fileno(), terms.null, *peer.descriptors())
    return request


def _receive_streams(connection: socket.socket, request: Request, peer: Peer) -> list[int | None] | None:
    """Return the launcher's streams, None for a closed one; nothing at all where it does not say go."""
    word, ancillary, _ = _receive(connection, MAX_WORD_BYTES, STREAMS)
    if not word:
        return None
    peer.check_credentials(ancillary)
    received = _descriptors(ancillary)
    if word != GO or len(received) != STREAMS - len(request.closed):
        return None
    given = iter(received)
    return [None if number in request.closed else next(given) for number in range(STREAMS)]


def _receive(
    connection: socket.socket, size: int, most: int, flags: int = 0
) -> tuple[bytes, list[tuple[int, int, bytes]], int]:
    """Return a packet, what came with it, at `most` so many file descriptors, and what recvmsg(2) says of it."""
    space = socket.CMSG_SPACE(most * _INT.size) + CREDENTIALS_BYTES
    packet, ancillary, said, _ = connection.recvmsg(size, space, flags)
    return packet, ancillary, said


def _descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    return [fd for _, kind, rights in ancillary if kind == socket.SCM_RIGHTS for (fd,) in _INT.iter_unpack(rights)]


def _execute(connection: socket.socket, plugin: str, limit_seconds: int) -> None:
    """Run the plugin as its own process would, and send its exit code."""
    code = 1
    interruption = Interruption(_UNDO_SECONDS)
    try:
        context = Context(interruption, find_plugin)
        _End(connection, interruption).watch(limit_seconds)
        code = run(plugin, lambda: connection.send(ANSWERING, socket.MSG_NOSIGNAL), context)
    finally:
        interruption.settle()
        # The caller reads them to their end, which is not to wait until this process has been taken apart.
        os.closerange(0, STREAMS)
        connection.send(encode_exit(code), socket.MSG_NOSIGNAL)


class _End:
    """The end of an execution before its time: a signal ends the launcher, or it took too long.

    Both interrupt the execution, so that an ADD takes back its steps. A launcher that was killed takes nothing back,
    nor does this process: it stops where it is. After that its caller executes DEL, which nothing may follow.
    """

    def __init__(self, connection: socket.socket, interruption: Interruption) -> None:
        self._connection = connection
        self._interruption = interruption

    def watch(self, limit_seconds: int) -> None:
        """Let the end come from now on, also if the launcher has said so already."""
        signal.signal(signal.SIGTERM, self._on_word)
        signal.signal(signal.SIGALRM, self._on_time)
        signal.alarm(limit_seconds)
        # The kernel sends SIGTERM for a packet on the connection and for its end.
        connection = self._connection.fileno()
        fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
        self._on_word()

    def _on_word(self, *_: object) -> None:
        ending = None
        while (number := self._heard()) is not None:  # one signal may stand for several packets
            ending = number
        if ending is not None:
            self._interruption.request(f"ended by signal {ending}")

    def _heard(self) -> int | None:
        """Return the signal that ends the launcher; None when nothing was said, as with a SIGTERM from elsewhere."""
        try:
            return decode_signal(self._connection.recv(MAX_WORD_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return None
        except (ConnectionError, HandoffError):
            os._exit(0)  # the launcher was killed

    def _on_time(self, *_: object) -> None:
        self._interruption.request("took too long, and was ended by the server")
