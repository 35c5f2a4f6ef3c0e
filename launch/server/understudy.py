"""A child that does what a worker will do, to find out which memory that takes."""

import errno
import json
import os
import signal
import socket
import struct

from .peer import want_credentials
from .prefault import own_pages
from .protocol import (
    ANSWERING,
    GO,
    MAX_WORD_BYTES,
    READY,
    Request,
    decode_exit,
    encode_environment,
    encode_request,
)
from .warmup import Scene
from .worker import Terms, serve

__all__ = ["pages_of"]

_PATIENCE_SECONDS = 10.0
_PAGE = struct.Struct("=Q")
_MOST_BYTES = 1 << 18
# What goes with a request: see launch/server/protocol.py.
_CIRCUMSTANCES = (
    (".", os.O_PATH | os.O_DIRECTORY),
    ("/proc/self/ns/net", os.O_RDONLY),
    ("/proc/self/ns/mnt", os.O_RDONLY),
    ("/", os.O_PATH | os.O_DIRECTORY),
)


def pages_of(verb: str, scene: Scene, terms: Terms) -> list[int]:
    """Return the addresses of the pages that a worker writes to when it executes a verb of `scene`. Raises OSError."""
    launcher, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    want_credentials(connection)
    child = os.fork()
    if child == 0:
        _perform(connection, terms)
    connection.close()
    with launcher:
        launcher.settimeout(_PATIENCE_SECONDS)
        try:
            return _watch(launcher, verb, scene, terms)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _perform(connection: socket.socket, terms: Terms) -> None:
    try:
        serve(connection, terms)
        connection.send(b"".join(map(_PAGE.pack, own_pages())))
    finally:
        os._exit(0)


def _watch(launcher: socket.socket, verb: str, scene: Scene, terms: Terms) -> list[int]:
    """Be the launcher of the child, and then read what it says of itself."""
    environ = {os.fsencode(name): os.fsencode(value) for name, value in scene.environ.items()}
    environ[b"CNI_COMMAND"] = verb.encode()
    request = Request(
        build_id=terms.build_id,
        umask=0o022,
        closed=(),
        blocked=0,
        ignored=0,
        plugin=str(scene.config["type"]),
        environment=encode_environment(environ),
    )
    _send(launcher, encode_request(request), [os.open(path, flags) for path, flags in _CIRCUMSTANCES])
    if launcher.recv(MAX_WORD_BYTES) != READY:
        raise ConnectionAbortedError(errno.ECONNABORTED, f"the {verb} of a child was not begun")
    stdin = os.memfd_create("stdin")
    os.pwrite(stdin, json.dumps(scene.config).encode(), 0)
    _send(launcher, GO, [stdin, *(os.open(os.devnull, os.O_WRONLY) for _ in ("stdout", "stderr"))])
    while (word := launcher.recv(MAX_WORD_BYTES)) == ANSWERING:
        pass
    code = decode_exit(word)
    if code != 0:
        raise ChildProcessError(errno.ECHILD, f"the {verb} of a child ended with {code}")
    return [page for (page,) in _PAGE.iter_unpack(launcher.recv(_MOST_BYTES))]


def _send(launcher: socket.socket, packet: bytes, opened: list[int]) -> None:
    """Send a packet with its file descriptors, which are closed here."""
    try:
        socket.send_fds(launcher, [packet], opened)
    finally:
        for fd in opened:
            os.close(fd)
