"""Who is at the other end of a connection, and whether the server acts for it: judged before anything is read.

The kernel says which process connected, and its PID says which folder of /proc is its own. But when a process has
ended, its PID is given to another one. Two ways exclude that:

- SO_PEERPIDFD (Linux 6.5) refers to the process itself. If it lives after its folder was read, the folder was its own.
- Before 6.5, the process of the folder must have sent the request and `G` (SCM_CREDENTIALS). A process that ended
  before the folder was opened may have left messages with its PID: so only the request may be there before `R` is sent.

Credentials are compared in both ways. They also tell the process that connected from a child that has its connection.
`R` and `G` are needed for nothing else, but for this: a process that sends the request may then execute a program with
another security label, which is judged. That program does not send `G`. So if there are labels, `G` is asked for, too.
Users cannot change so unseen: the credentials say who sent the request.
"""

import errno
import os
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from .identity import Identity, PeerError, open_folder, read_identity

SO_PEERPIDFD = 77
"""include/uapi/asm-generic/socket.h, of all machines but PA-RISC and SPARC; not in Python 3.11."""
# struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
_INT = struct.Struct("i")
_CREDENTIALS = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
CREDENTIALS_BYTES = socket.CMSG_SPACE(_UCRED.size)
"""Room for them in the ancillary data of each message."""


class Peer:
    """A process that was judged, or is about to be. After a PeerError nothing may be done for it."""

    def __init__(self, connection: socket.socket, pid: int, pidfd: int | None, folder: int) -> None:
        """Use the descriptors of the process (None: the kernel gives none), and of its folder in /proc."""
        self.pid = pid
        self.root_inode = (0, 0)
        """Device and inode of its root folder, which a worker must find at `/` of its mount namespace."""
        self.must_confirm = True
        """Whether `R` must be sent, and answered, before anything is done for it."""
        self._pidfd = pidfd
        self._folder = folder
        self._end = select.poll()
        if pidfd is not None:
            self._end.register(pidfd, select.POLLIN)
        self._connection = connection

    def judge(self, own: Identity) -> None:
        """Raise PeerError unless the process that connected lives, and one of identity `own` may act for it."""
        try:
            theirs = read_identity(self._folder, self.pid, own)
        except OSError as error:
            self.still_there()
            raise PeerError(f"unreadable: {error.strerror}") from None
        # Only now: a PID cannot have been another process's before, if its process still lives.
        self.still_there()
        own.require(theirs)
        self.root_inode = theirs.root_inode
        self.must_confirm = self._pidfd is None or own.label is not None

    def still_there(self) -> None:
        """Raise PeerError if the process has ended."""
        if self._pidfd is not None:
            if self._end.poll(0):
                raise PeerError("gone")
            return
        try:
            os.readlink("root", dir_fd=self._folder)  # not even a zombie has one
        except OSError:
            raise PeerError("gone") from None

    def check_silence(self) -> None:
        """Raise PeerError if there is one more message. To be called before `R` is sent."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        if poll.poll(0):
            raise PeerError("it did not wait for an answer")

    def check_credentials(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        """Raise PeerError unless the process has sent the message with this ancillary data, as root, and lives."""
        senders = [_UCRED.unpack(content) for *kind, content in ancillary if tuple(kind) == _CREDENTIALS]
        if senders != [(self.pid, 0, 0)]:
            raise PeerError("another process has sent a message")
        self.still_there()


def want_credentials(listening: socket.socket) -> None:
    """Have the kernel add the sender's credentials to each message of a connection."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


@contextmanager
def judge(connection: socket.socket, own: Identity, pidfd_option: int = SO_PEERPIDFD) -> Iterator[Peer]:
    """Yield who is at the other end, if a process of identity `own` may act for it. Raises PeerError.

    To be entered as soon as the connection is accepted. The listening socket must `want_credentials`. `pidfd_option` is
    the socket option that gives a descriptor of the process, if the kernel knows it.
    """
    try:
        want_credentials(connection)  # it may have connected when only systemd listened
        pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError as error:
        raise PeerError(f"unknown: {error.strerror}") from None
    if (uid, gid) != (0, 0):  # when it connected: it may have executed a setuid program since
        raise PeerError(f"not root: user {uid}, group {gid}")
    if pid <= 0:
        raise PeerError("in another PID namespace, which is not below the server's")
    with ExitStack() as stack:
        pidfd = _pidfd(connection, pidfd_option)
        if pidfd is not None:
            stack.callback(os.close, pidfd)
        try:
            folder = open_folder(pid)
        except OSError:
            raise PeerError("gone") from None
        stack.callback(os.close, folder)
        peer = Peer(connection, pid, pidfd, folder)
        peer.judge(own)
        yield peer


def _pidfd(connection: socket.socket, option: int) -> int | None:
    """Return a descriptor of the process that connected, which closes on exec; None if the kernel knows no such."""
    try:
        (pidfd,) = _INT.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _INT.size))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        raise PeerError("gone") from None  # EINVAL or ESRCH, which depends on the kernel
    return int(pidfd)
