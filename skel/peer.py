"""Who is at the other end of the fork server's socket: what the kernel says of the launcher's process.

Some of what a process inherits from its caller cannot be handed over in a packet. The limits are copied. What cannot be
copied, or must not be, has to be as the server's own: otherwise the launcher is left to do its work by itself.
"""

import os
import socket
import struct
from typing import NamedTuple

__all__ = ["Credentials", "PeerError", "Standing", "credentials", "standing"]

# struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
_NAMESPACES = ("user", "pid", "uts", "ipc", "cgroup", "time")
"""Those besides the network's and the mounts', which the worker enters."""
_PRIVILEGES = (b"Uid", b"Gid", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb", b"NoNewPrivs", b"Seccomp")
"""Lines of /proc/PID/status."""


class PeerError(Exception):
    """The server does not work for this one; the message says why."""


class Credentials(NamedTuple):
    """Of the process that connected, as the kernel saw it then."""

    pid: int
    uid: int
    gid: int


class Standing(NamedTuple):
    """What a process may do and where it stands."""

    namespaces: tuple[str, ...]
    privileges: tuple[bytes, ...]
    groups: tuple[int, ...]

    def require(self, other: "Standing") -> None:
        """Raise PeerError unless a process of this standing may work for one of `other`: neither gains by it.

        The groups may differ: they can be taken on.
        """
        if self.namespaces != other.namespaces:
            theirs = ", ".join(sorted(set(other.namespaces) - set(self.namespaces)))
            raise PeerError(f"in another namespace: {theirs}")
        if self.privileges != other.privileges:
            theirs = ", ".join(line.decode() for line in other.privileges if line not in self.privileges)
            raise PeerError(f"with other privileges: {' '.join(theirs.split())}")


def credentials(connection: socket.socket) -> Credentials:
    """Return who connected. Raises OSError."""
    return Credentials(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def standing(pid: int) -> Standing:
    """Return the standing of a process. Raises PeerError when it has gone."""
    try:
        namespaces = tuple([os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES])
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            status = dict([line.split(b":", 1) for line in file.read().splitlines()])
    except OSError as error:
        raise PeerError(f"gone: {error}") from None
    privileges = tuple([name + b":" + status[name] for name in _PRIVILEGES])
    return Standing(namespaces, privileges, tuple(map(int, status[b"Groups"].split())))
