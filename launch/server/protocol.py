r"""What a launcher and the fork server say to each other: one connection an execution, AF_UNIX, SOCK_SEQPACKET.

The launcher's first packet is the request, integers in the machine's own byte order:

    offset  bytes  content
         0      5  `CNIH` and the protocol's version, 2
         5      3  zero
         8     16  build ID: that of the code the launcher would run by itself (launch.installation.build_id)
        24      4  umask
        28      4  flags: 1, 2, 4 for a stdin, stdout, stderr that is closed; all others zero
        32      8  signals that the launcher's caller blocks, signal N as bit N-1
        40      8  signals that are ignored, likewise
        48         name of the plugin (the launcher's file name), NUL
                   the environment as execve(2) had it: each `KEY=VALUE`, NUL; to the end of the packet

With it go file descriptors (SCM_RIGHTS), in this order:

    working directory  (open(".", O_PATH | O_DIRECTORY))
    network namespace  (/proc/self/ns/net)
    mount namespace    (/proc/self/ns/mnt)
    root directory     (open("/", O_PATH | O_DIRECTORY))

The packets that follow:

    server    `R`                ready: everything that could fail is done
    launcher  `G`                go: from here on the request is the server's; with it go stdin, stdout and stderr
                                 (SCM_RIGHTS), but for those that are closed
    server    `W`                the answer is about to be written to stdout; where there is none, this is left out
    server    `X`, 4 bytes       the exit code, signed; stdout and stderr are written
    launcher  `T`, 1 byte        a signal is to end the launcher: what the execution has done is to be taken back, and
                                 `X` sent, for which the launcher waits, but no longer than 25 s; it ends with exit
                                 code 0 if that says so, since the execution had succeeded, and by the signal otherwise

A connection that ends before `R` means: not by this server. Until it has sent `G`, the launcher may turn away and
execute the plugin itself; the server, without `G`, does nothing. Nor does a request that nobody reads keep a stream of
the caller open, who reads them to their end. After `G` the launcher never executes the plugin: a connection that then
ends without `X` is an execution that was killed, with nothing on its stdout but after `W`. One that the launcher ends
before `X` means that it was killed: the worker stops where it is and takes nothing back, as a killed plugin does.
"""

import os
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = [
    "ANSWERING",
    "CIRCUMSTANCES",
    "GO",
    "MAX_REQUEST_BYTES",
    "MAX_WORD_BYTES",
    "READY",
    "STREAMS",
    "HandoffError",
    "Request",
    "decode_environment",
    "decode_exit",
    "decode_request",
    "decode_signal",
    "encode_environment",
    "encode_exit",
    "encode_request",
]

CIRCUMSTANCES = 4
"""File descriptors that come with a request."""
STREAMS = 3
"""Those that come with `G`, at most."""
MAX_REQUEST_BYTES = 1 << 18
"""More than the send buffer that a socket has by default: what is larger does not leave the launcher (EMSGSIZE)."""

MAX_WORD_BYTES = 16
"""More than any packet has but the request."""
READY = b"R"
GO = b"G"
ANSWERING = b"W"

_MAGIC = b"CNIH\x02\0\0\0"
_EXIT = b"X"
_EXIT_BYTES = 5
_SIGNALLED = b"T"
_SIGNALLED_BYTES = 2
_ORDER: Literal["little", "big"] = sys.byteorder
_BUILD_ID = slice(8, 24)
_UMASK = slice(24, 28)
_FLAGS = slice(28, 32)
_BLOCKED = slice(32, 40)
_IGNORED = slice(40, 48)
_HEADER_BYTES = 48


class HandoffError(ValueError):
    """A packet that is not of this protocol, in this version."""


class Request(NamedTuple):
    """What a launcher asks for, without the file descriptors."""

    build_id: bytes
    umask: int
    closed: tuple[int, ...]
    """Those of 0, 1 and 2 that the launcher does not have open."""
    blocked: int
    """Signals, signal N as bit N-1."""
    ignored: int
    plugin: str
    environment: bytes
    """The block as execve(2) had it."""


def encode_request(request: Request) -> bytes:
    """Return the packet of a request."""
    flags = sum(1 << number for number in request.closed)
    numbers = ((request.umask, 4), (flags, 4), (request.blocked, 8), (request.ignored, 8))
    fixed = b"".join(number.to_bytes(size, _ORDER) for number, size in numbers)
    return _MAGIC + request.build_id + fixed + os.fsencode(request.plugin) + b"\0" + request.environment


def decode_request(packet: bytes) -> Request:
    """Return the request in a packet. Raises HandoffError."""
    name, zero, environment = packet[_HEADER_BYTES:].partition(b"\0")
    flags = _number(packet[_FLAGS])
    if not packet.startswith(_MAGIC) or not zero or flags >> STREAMS:
        raise HandoffError(f"not a request of this protocol: {packet[:_HEADER_BYTES]!r}")
    return Request(
        build_id=packet[_BUILD_ID],
        umask=_number(packet[_UMASK]),
        closed=tuple(number for number in range(STREAMS) if flags & 1 << number),
        blocked=_number(packet[_BLOCKED]),
        ignored=_number(packet[_IGNORED]),
        plugin=os.fsdecode(name),
        environment=environment,
    )


def encode_environment(environ: Mapping[bytes, bytes]) -> bytes:
    """Return the block that execve(2) would be given."""
    return b"".join(b"%b=%b\0" % pair for pair in environ.items())


def decode_environment(block: bytes) -> dict[bytes, bytes]:
    """Return the variables of a block as os.environ would show them: the first of a name counts."""
    environ: dict[bytes, bytes] = {}
    for entry in block.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            environ.setdefault(name, value)
    return environ


def encode_exit(code: int) -> bytes:
    """Return the packet that ends an execution."""
    return _EXIT + code.to_bytes(_EXIT_BYTES - 1, _ORDER, signed=True)


def decode_exit(packet: bytes) -> int:
    """Return the exit code in a packet. Raises HandoffError, also for the empty one that a killed worker leaves."""
    if len(packet) != _EXIT_BYTES or not packet.startswith(_EXIT):
        raise HandoffError(f"not an exit code: {packet!r}")
    return int.from_bytes(packet[1:], _ORDER, signed=True)


def decode_signal(packet: bytes) -> int:
    """Return the signal in a packet. Raises HandoffError, also for the empty one that a killed launcher leaves."""
    if len(packet) != _SIGNALLED_BYTES or not packet.startswith(_SIGNALLED):
        raise HandoffError(f"not a signal: {packet!r}")
    return packet[1]


def _number(field: bytes) -> int:
    return int.from_bytes(field, _ORDER)
