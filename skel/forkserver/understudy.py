"""A child that does what a worker will do, to find out which memory that takes."""

import errno
import json
import os
import signal
import socket
import struct

from .handoff import GO, READY, Request, decode_exit, encode_environment, encode_request
from .prefault import own_pages
from .preload import Scene
from .worker import Terms, serve

__all__ = ["pages_of"]

_PATIENCE_SECONDS = 10.0
_PAGE = struct.Struct("=Q")
_MOST_BYTES = 1 << 18
# What goes with a request, from stdout on: see skel/forkserver/handoff.py.
_OPENED = (
    (os.devnull, os.O_WRONLY),
    (os.devnull, os.O_WRONLY),
    (".", os.O_PATH | os.O_DIRECTORY),
    ("/proc/self/ns/net", os.O_RDONLY),
    ("/proc/self/ns/mnt", os.O_RDONLY),
    ("/", os.O_PATH | os.O_DIRECTORY),
)


def pages_of(verb: str, scene: Scene, terms: Terms) -> list[int]:
    """Return the addresses of the pages that a worker writes to when it executes a verb of `scene`. Raises OSError."""
    launcher, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
    opened = [os.memfd_create("stdin"), *(os.open(path, flags) for path, flags in _OPENED)]
    try:
        os.pwrite(opened[0], json.dumps(scene.config).encode(), 0)
        socket.send_fds(launcher, [encode_request(request)], opened)
    finally:
        for fd in opened:
            os.close(fd)
    if launcher.recv(len(READY)) != READY:
        raise ConnectionAbortedError(errno.ECONNABORTED, f"the {verb} of a child was not begun")
    launcher.send(GO)
    code = decode_exit(launcher.recv(_MOST_BYTES))
    if code != 0:
        raise ChildProcessError(errno.ECHILD, f"the {verb} of a child ended with {code}")
    return [page for (page,) in _PAGE.iter_unpack(launcher.recv(_MOST_BYTES))]
