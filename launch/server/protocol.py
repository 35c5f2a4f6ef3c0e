r"""The protocol between a launcher and the server: one connection a request, AF_UNIX, SOCK_SEQPACKET.

The launcher's first packet is the request, integers in the machine's own byte order:

    offset  bytes  content
         0      5  `CNIH` and the protocol's version, 4
         5      3  zero
         8     16  build ID: that of the code the launcher would run by itself (launch.installation.build_id)
        24      4  umask
        28         name of the plugin (the launcher's file name), NUL
                   the environment as execve(2) had it: each `KEY=VALUE`, NUL; to the end of the packet

With it go file descriptors (SCM_RIGHTS), in this order:

    working directory  (open(".", O_PATH | O_DIRECTORY))
    network namespace  (/proc/self/ns/net)
    mount namespace    (/proc/self/ns/mnt)
    token              (eventfd(1), not blocking)
    stdin              unless the launcher's is closed

The token is the right to execute the plugin: the first to read its count has it, the second reads EAGAIN. A worker
that has judged the launcher, and is ready, takes the token and begins. The launcher takes it back if two seconds are
over, if a signal is to end it, or if the connection has ended: then it executes the plugin by itself, or ends. If the
token is gone, the call is the server's.

The packets that follow:

    server    `R`                only if `launch.server.peer` says so, and before the token is taken: is the launcher
                                 still the process that was judged?
    launcher  `G`                the answer, with the credentials that the kernel adds
    server    `E`, `O`, text     a piece of a long answer, for the launcher's stderr or stdout
    server    `X`, 8 bytes, text the end: the exit code, signed; how many bytes of the text are for stderr, which are
                                 the first; the others are for stdout. Pieces come before it, those of stderr first
    launcher  `T`, 1 byte        a signal is to end the launcher: the call undoes its steps and sends `X`,
                                 for which the launcher waits, but no longer than 25 s; it ends with exit code 0 if
                                 that says so, since the call had succeeded, and by the signal otherwise. Sent only if
                                 the token is gone

The launcher writes the answer, so that the worker never holds the caller's stdout or stderr open.

A connection that ends without `X` is a call that was killed, if the token is gone. One that the launcher ends before
`X` means that it was killed: the worker stops at once and takes nothing back, as a killed plugin does.
"""

import os
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple

CALLER_DESCRIPTORS = 3
"""That say where the caller is: the first of a request."""
DESCRIPTORS = CALLER_DESCRIPTORS + 2
"""That come with a request, if stdin is one of them."""
TOKEN_BYTES = 8
"""Of an eventfd's count."""
MAX_REQUEST_BYTES = 1 << 18
"""More than a socket's send buffer by default: sending a larger one fails in the launcher (EMSGSIZE)."""

MAX_SHORT_PACKET_BYTES = 16
"""More than the launcher's packets have, but for the request."""
PIECE_BYTES = 1 << 16
"""Of the text in one packet, at most."""
READY = b"R"
GO = b"G"

_MAGIC = b"CNIH\x04\0\0\0"
_END, _STDERR, _STDOUT = b"X", b"E", b"O"
_SIGNALLED = b"T"
_SIGNALLED_BYTES = 2
_ORDER: Literal["little", "big"] = sys.byteorder
_BUILD_ID = slice(8, 24)
_UMASK = slice(24, 28)
_HEADER_BYTES = 28


class HandoffError(ValueError):
    """A packet that is not of this protocol, in this version, or that this server does not serve."""


class LauncherRequest(NamedTuple):
    """A launcher's request, without the file descriptors."""

    build_id: bytes
    umask: int
    plugin: str
    environment: bytes
    """The block as execve(2) had it."""


def decode_request(packet: bytes) -> LauncherRequest:
    """Return the request in a packet. Raises HandoffError."""
    name, zero, environment = packet[_HEADER_BYTES:].partition(b"\0")
    if not packet.startswith(_MAGIC) or not zero:
        raise HandoffError(f"not a request of this protocol: {packet[:_HEADER_BYTES]!r}")
    return LauncherRequest(
        build_id=packet[_BUILD_ID],
        umask=int.from_bytes(packet[_UMASK], _ORDER) & 0o777,
        plugin=os.fsdecode(name),
        environment=environment,
    )


def decode_environment(block: bytes) -> dict[str, str]:
    """Return the variables of a block as os.environ would show them: the first of a name counts."""
    environ: dict[str, str] = {}
    for entry in os.fsdecode(block).split("\0"):
        name, equals, value = entry.partition("=")
        if equals:
            environ.setdefault(name, value)
    return environ


def encode_answer(code: int, stderr: bytes, stdout: bytes) -> Iterator[bytes]:
    """Yield the packets of an answer; the last one is its end, which makes it valid."""
    if len(stderr) + len(stdout) > PIECE_BYTES:
        for kind, text in ((_STDERR, stderr), (_STDOUT, stdout)):
            for start in range(0, len(text), PIECE_BYTES):
                yield kind + text[start : start + PIECE_BYTES]
        stderr = stdout = b""
    yield _END + code.to_bytes(4, _ORDER, signed=True) + len(stderr).to_bytes(4, _ORDER) + stderr + stdout


def decode_signal(packet: bytes) -> int:
    """Return the signal in a packet. Raises HandoffError, also for the empty one that a killed launcher leaves."""
    if len(packet) != _SIGNALLED_BYTES or not packet.startswith(_SIGNALLED):
        raise HandoffError(f"not a signal: {packet!r}")
    return packet[1]
