"""The socket on which the plugin asks: one question and one answer for each connection."""

import errno
import json
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

from skel import CniError, Code

from .attachment import LeasedAttachment
from .leases import Leases
from .loop import Loop
from .pod_interface import GoneError
from .protocol import FOREIGN_ANSWER, MARK, DaemonAnswer, Question

_BACKLOG = 4096
_FIRST_PASSED = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""
_LONGEST_QUESTION = 1 << 24
"""Bytes. A GC names all attachments of a network."""
_FOREIGN = b"CONNECT /_goRPC_"
"""How the reference's plugin begins."""


def listening_socket(path: str) -> tuple[socket.socket, bool]:
    """Return the socket that systemd has passed, or a new one at `path`, and whether it is ours to remove.

    Raises ValueError if another daemon listens there, or the path is no socket; OSError.
    """
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and (count := int(os.environ.get("LISTEN_FDS", "0"))):
        if count != 1:
            raise ValueError(f"{count} sockets from systemd; one is due")
        return socket.socket(fileno=_FIRST_PASSED), False
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as trial:
        trial.setblocking(False)  # noqa: FBT003 -- it takes no keyword
        refused = trial.connect_ex(path)
    if refused in {0, errno.EAGAIN}:
        raise ValueError(f"{path}: another daemon listens there")
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ValueError(f"{path} is there, and is no socket")
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX)
    umask = os.umask(0o177)  # root's alone from its first moment
    try:
        listening.bind(path)
    finally:
        os.umask(umask)
    listening.listen(_BACKLOG)
    return listening, True


class Service:
    """Reads questions, has them answered by `Leases`, and writes the answers."""

    def __init__(self, listening: socket.socket, leases: Leases, loop: Loop, log: Callable[[str], object]) -> None:
        self._listening = listening
        self._leases = leases
        self._loop = loop
        self._log = log
        listening.setblocking(False)  # noqa: FBT003 -- it takes no keyword
        loop.watch(listening, self._accept)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:  # too many files, or the peer is gone
                self._log(f"accepting: {error.strerror}")
                return
            _Conversation(connection, self._leases, self._loop, self._log)


class _Conversation:
    """One connection."""

    def __init__(self, connection: socket.socket, leases: Leases, loop: Loop, log: Callable[[str], object]) -> None:
        self._connection = connection
        self._leases = leases
        self._loop = loop
        self._log = log
        self._read = b""
        self._pending: LeasedAttachment | None = None
        self._over = False
        connection.setblocking(False)  # noqa: FBT003 -- it takes no keyword
        loop.watch(connection, self._receive)

    def _receive(self) -> None:
        try:
            part = self._connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._read += part
        if not part or len(self._read) > _LONGEST_QUESTION:
            self._close()
            if self._pending is not None:
                self._leases.abandon(self._pending)
        elif self._read.startswith(_FOREIGN):
            if b"\n\n" in self._read:  # to its end: an unread rest would make the close a reset
                self._log("the reference's dhcp plugin asks: it is told to go")
                self._send(FOREIGN_ANSWER)
        elif b"\n" in part:
            self._ask(self._read)

    def _ask(self, line: bytes) -> None:
        """Have a question answered."""
        try:
            self._dispatch(Question.decode(json.loads(line)))
        except CniError as error:
            self._answer(error, None)
        except GoneError as error:
            self._answer(CniError(Code.INVALID_ENVIRONMENT, f"CNI_NETNS: {error}"), None)
        except OSError as error:
            self._answer(CniError(Code.IO_FAILURE, f"the DHCP daemon: {error}"), None)
        except ValueError as error:
            self._answer(CniError(Code.DECODING_FAILURE, f"the DHCP daemon cannot read the question: {error}"), None)

    def _dispatch(self, question: Question) -> None:
        """Raises CniError, GoneError, OSError."""
        if question.number != 1:
            raise CniError(Code.INTERNAL, f"this DHCP daemon does not know protocol {question.number}")
        if question.verb == "ADD":
            self._pending = self._leases.add(question, self._answer)
        elif question.verb in {"CHECK", "REPAIR"}:
            self._leases.check(question, self._answer)
        elif question.verb == "DEL":
            self._leases.delete(question, self._answer)
        elif question.verb == "GC":
            self._leases.collect(question)
            self._answer(None, None)
        elif question.verb == "STATUS":
            self._answer(None, None)
        else:
            raise CniError(Code.INVALID_ENVIRONMENT, f"the DHCP daemon does not know {question.verb}")

    def _answer(self, error: CniError | None, attachment: LeasedAttachment | None) -> None:
        self._pending = None
        if error is not None:
            answer = DaemonAnswer(number=1, code=error.code, msg=str(error))
        else:
            result = attachment.result.encode_as("1.1.0") if attachment is not None and attachment.holds else {}
            answer = DaemonAnswer(number=1, result=result)
        self._send(json.dumps({MARK: 1, **answer.encode()}).encode() + b"\n")

    def _send(self, answer: bytes) -> None:
        """Send an answer, of less than a socket's buffer, and end."""
        if not self._over:
            with suppress(OSError):
                self._connection.send(answer)
            self._close()

    def _close(self) -> None:
        if not self._over:
            self._over = True
            self._loop.forget(self._connection)
            self._connection.close()
