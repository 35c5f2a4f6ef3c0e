"""`dhcp daemon`: its flags, which are the reference's and one for the folder of the leases, and its socket.

On the socket the plugin asks: one question and one answer for each connection.
"""

import errno
import gc
import json
import os
import re
import signal
import socket
import stat
import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence
from contextlib import suppress

from skel import CniError, Code

from .attachment import LeasedAttachment
from .lease import Limits
from .leases import DaemonOptions, Leases
from .loop import Loop
from .pod_interface import GoneError
from .protocol import AWAY_SUFFIX, DEFAULT_SOCKET, FOREIGN_ANSWER, MARK, DaemonAnswer, Question
from .store import DATA_DIR

_BACKLOG = 4096
_FIRST_PASSED = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""
_LONGEST_QUESTION = 1 << 24
"""Bytes. A GC names all attachments of a network."""
_FOREIGN = b"CONNECT /_goRPC_"
"""How the reference's plugin begins."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|us|µs|ns|m|s)")


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
            _Connection(connection, self._leases, self._loop, self._log)


class _Connection:
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


def duration(text: str) -> float:
    """Return the seconds of a duration in Go's notation (`1m30s`). Raises ArgumentTypeError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f'expected a duration such as 10s or 1m30s, got "{text}"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _truth(text: str) -> bool:
    """Return a boolean flag's value in Go's notation. Raises ArgumentTypeError."""
    if text.lower() not in {"1", "t", "true", "0", "f", "false"}:
        raise ArgumentTypeError(f'expected true or false, got "{text}"')
    return text.lower() in {"1", "t", "true"}


def main(arguments: Sequence[str]) -> int:
    """Run the daemon until SIGTERM or SIGINT; return its exit code."""
    gc.enable()  # the launcher of a short process has turned it off
    options = _parser().parse_args(arguments)
    data_dir = options.host_prefix + options.data_dir
    limits = Limits(timeout=options.timeout, resend_max=options.resend_max)
    loop, over = Loop(), []
    leases = Leases(
        DaemonOptions(data_dir, options.host_prefix, limits, options.resend_timeout, options.broadcast), loop, _log
    )
    path = options.host_prefix + (options.socket_path or DEFAULT_SOCKET)
    if options.pidfile and not os.path.isabs(options.pidfile):
        _log(f'-pidfile: expected an absolute path, got "{options.pidfile}"')
        return 1
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with open(wake_read, "rb", buffering=0) as wakeups:
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: over.append(number))
        loop.watch(wakeups, lambda: wakeups.read(64))
        try:
            listening, is_ours = listening_socket(path)
            with suppress(FileNotFoundError):
                os.unlink(path + AWAY_SUFFIX)
            leases.load()
            Service(listening, leases, loop, _log)
            if options.pidfile:
                with open(options.pidfile, "w", encoding="ascii") as file:
                    file.write(str(os.getpid()))
        except (OSError, ValueError) as error:
            _log(str(error))
            return 1
        _log(f"listening at {path}, {len(leases)} attachments have leases")
        while not over:
            try:
                loop.turn()
            except Exception:  # noqa: BLE001 -- a mistake about one pod must not cost the others their leases
                _log(traceback.format_exc())
    # The leases stay: pods run on, and the next daemon renews them.
    _log(f"ends, {len(leases)} attachments have leases")
    with suppress(FileNotFoundError):
        if is_ours:
            os.unlink(path)
        if options.pidfile:
            os.unlink(options.pidfile)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="dhcp daemon", description="Keeps the DHCP leases of pods.", allow_abbrev=False)
    paths = {
        "pidfile": ("pidfile", "", "file to write the process ID to; an absolute path"),
        "hostprefix": ("host_prefix", "", "prefix of all paths, if the host's root is elsewhere"),
        "socketpath": ("socket_path", "", f"where to listen [{DEFAULT_SOCKET}]"),
        "datadir": ("data_dir", DATA_DIR, f"folder of the leases [{DATA_DIR}]"),
    }
    for name, (dest, value, text) in paths.items():
        parser.add_argument(f"-{name}", f"--{name}", dest=dest, default=value, help=text)
    times = {
        "timeout": ("timeout", 10.0, "for the answer to one request [10s]"),
        "resendmax": ("resend_max", 62.0, "longest time between two messages [1m2s]"),
        "resendtimeout": ("resend_timeout", 208.0, "for a lease in all [3m28s]"),
    }
    for name, (dest, default, text) in times.items():
        parser.add_argument(f"-{name}", f"--{name}", type=duration, dest=dest, default=default, help=text)
    text = "ask servers to answer by broadcast"
    parser.add_argument("-broadcast", "--broadcast", type=_truth, nargs="?", const=True, default=False, help=text)
    return parser


def _log(text: str) -> None:
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"cni-dhcp: {text}\n".encode(errors="replace"))
