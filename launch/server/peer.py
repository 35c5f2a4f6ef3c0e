"""Who is at the other end of the fork server's socket: what the kernel says of the launcher's process.

Some of what a process inherits from its caller cannot be handed over in a packet. The limits are copied. What cannot be
copied, or must not be, has to be as the server's own: otherwise the launcher is left to do its work by itself.
"""

import os
import re
import socket
import struct
from typing import NamedTuple

__all__ = ["Credentials", "PeerError", "Standing", "credentials", "standing"]

# struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
_NAMESPACES = ("user", "pid", "uts", "ipc", "cgroup", "time")
"""Those besides the network's and the mounts', which the worker enters."""
# Lines of /proc/PID/status.
_PRIVILEGES = re.compile(rb"^(?:Uid|Gid|Cap...|NoNewPrivs|Seccomp):.*", re.MULTILINE)
_FILTERED = b"Seccomp:\t2"
_GROUPS = re.compile(rb"^Groups:(.*)", re.MULTILINE)


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
    label: bytes
    """Of AppArmor, SELinux or their like; empty where there is none, or none to be seen."""

    def require(self, other: "Standing") -> None:
        """Raise PeerError unless a process of this standing may work for one of `other`: neither gains by it.

        The groups may differ: they can be taken on.
        """
        if self.namespaces != other.namespaces:
            theirs = ", ".join(sorted(set(other.namespaces) - set(self.namespaces)))
            raise PeerError(f"in another namespace: {theirs}")
        if _FILTERED in other.privileges:
            raise PeerError("under a filter of system calls")  # and nothing tells whether ours is the same
        if self.privileges != other.privileges:
            theirs = ", ".join(line.decode() for line in other.privileges if line not in self.privileges)
            raise PeerError(f"with other privileges: {' '.join(theirs.split())}")
        if self.label != other.label:
            raise PeerError(f'with another security label: "{other.label.decode(errors="replace").strip()}"')


def credentials(connection: socket.socket) -> Credentials:
    """Return who connected. Raises OSError."""
    return Credentials(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def standing(pid: int) -> Standing:
    """Return the standing of a process. Raises PeerError when it has gone."""
    try:
        namespaces = tuple([os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES])
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            status = file.read()
    except OSError as error:
        raise PeerError(f"gone: {error}") from None
    (groups,) = _GROUPS.findall(status)
    return Standing(namespaces, tuple(_PRIVILEGES.findall(status)), tuple(map(int, groups.split())), _label(pid))


def _label(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/attr/current", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
