"""What launch/launcher.c does, for the launcher in Python that takes its place: has the fork server run the plugin.

A process that does no more than this loads no more than this, so here is no `socket`, no `struct`, and of `skel`
nothing (see `launch.launcher.launcher_text`): the packets of launch/server/protocol.py are put together by hand.
"""

import _socket
import os
import sys

__all__ = ["hand_over"]

_ROOT_USER = 0
_STREAMS = range(3)
# Python ignores these two from its start; whether its caller did cannot be known.
_PYTHONS_OWN = 1 << 13 - 1 | 1 << 25 - 1  # SIGPIPE, SIGXFSZ
# 32 and 33: no program can ignore or block them by way of glibc.
_PRIVATE = 0b11 << 32 - 1
_EXIT_BYTES = 5
_MAX_WORD_BYTES = 16
_DIED = b'{"cniVersion": "1.1.0", "code": 999, "msg": "the fork server\'s worker died while it ran the plugin"}\n'
_UNDO_SECONDS = 25.0
"""For the worker to take back what it has done, which it gives up before."""
_CIRCUMSTANCES = (
    (".", os.O_PATH | os.O_DIRECTORY),
    ("/proc/self/ns/net", os.O_RDONLY),
    ("/proc/self/ns/mnt", os.O_RDONLY),
    ("/", os.O_PATH | os.O_DIRECTORY),
)


def hand_over(path: str, socket_path: str, build_id: bytes, patience: float) -> int | None:
    """Have the server run the plugin that the launcher at `path` stands for; return its exit code.

    None when no server has accepted that, within `patience` seconds: then nothing has been done.
    """
    closed = [stream for stream in _STREAMS if not _is_open(stream)]  # before anything is opened in their places
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    opened: list[int] = []
    try:
        # The kernel's own time limits: connecting a socket that has one of Python's fails where the queue is full.
        for option in (_socket.SO_SNDTIMEO, _socket.SO_RCVTIMEO):
            connection.setsockopt(_socket.SOL_SOCKET, option, _timeval(patience))
        connection.connect(socket_path)
        _check_server(connection)
        for name, flags in _CIRCUMSTANCES:
            opened += [os.open(name, flags)]
        _send(connection, _request(path, build_id, closed), opened)
        signals = _Signals(connection)  # while the worker gets ready
        if connection.recv(2) != b"R":
            raise ConnectionRefusedError
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, _timeval(0))
        signals.start()
        try:
            _send(connection, [b"G"], [stream for stream in _STREAMS if stream not in closed])
        except OSError:
            signals.stop()
            raise
    except OSError:
        connection.close()
        return None
    finally:
        for number in opened:
            os.close(number)
    return signals.end(_outcome(connection, signals))


def _request(path: str, build_id: bytes, closed: list[int]) -> list[bytes]:
    umask = os.umask(0)
    os.umask(umask)
    flags = sum(1 << stream for stream in closed)
    status = dict(line.split(b":", 1) for line in _read("/proc/self/status").splitlines())
    blocked, ignored = int(status[b"SigBlk"], 16) & ~_PRIVATE, int(status[b"SigIgn"], 16) & ~(_PRIVATE | _PYTHONS_OWN)
    numbers = ((umask, 4), (flags, 4), (blocked, 8), (ignored, 8))
    name = os.fsencode(os.path.basename(path))
    return [
        b"CNIH\x02\0\0\0" + build_id,
        *(number.to_bytes(size, sys.byteorder) for number, size in numbers),
        name + b"\0",
        # As execve(2) had it, which os.environ is not: that lacks what has no `=`, and Python may have set LC_CTYPE.
        _read("/proc/self/environ"),
    ]


def _send(connection: _socket.socket, parts: list[bytes], descriptors: list[int]) -> None:
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    connection.sendmsg(parts, [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)], _socket.MSG_NOSIGNAL)


def _outcome(connection: _socket.socket, signals: "_Signals") -> int:
    """Return the exit code of an accepted request."""
    packet, answers = _last_word(connection)
    if len(packet) == _EXIT_BYTES and packet.startswith(b"X"):
        return int.from_bytes(packet[1:], sys.byteorder, signed=True)
    connection.close()  # before anything is written: it may have the number of a stdout that was closed
    if not answers and not signals.arrived:
        try:  # noqa: SIM105 -- contextlib would be one more to load
            os.write(1, _DIED)
        except OSError:
            pass  # the exit code says it, too
    return 1


def _last_word(connection: _socket.socket) -> tuple[bytes, bool]:
    """Return the server's last packet, empty where it has ended the connection; and whether stdout is written to."""
    answers = False
    while True:
        try:
            packet = connection.recv(_MAX_WORD_BYTES)
        except OSError:
            packet = b""
        if packet != b"W":
            return packet, answers
        answers = True


class _Signals:
    """Those that end this process: the worker is told of the first one, and this process dies of it after the worker.

    Unless the worker has succeeded: a runtime that has the result must find exit code 0 with it.
    """

    def __init__(self, connection: _socket.socket) -> None:
        import signal

        self._signal = signal
        self._connection = connection
        self.arrived = 0
        self._handlers = {
            number: handler
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
            if (handler := signal.getsignal(number)) != signal.SIG_IGN
        }

    def start(self) -> None:
        for number in self._handlers:
            self._signal.signal(number, self._on_signal)

    def stop(self) -> None:
        if self.arrived:
            os._exit(self.end(1))
        for number, handler in self._handlers.items():
            self._signal.signal(number, handler)

    def end(self, code: int) -> int:
        """Return the exit code, unless a signal has come and the worker did not succeed: then die of the signal."""
        if code == 0 or not self.arrived:
            return code
        self._signal.signal(self.arrived, self._signal.SIG_DFL)
        os.kill(os.getpid(), self.arrived)
        return 128 + self.arrived  # the first process of a PID namespace survives itself

    def _on_signal(self, ending: int, _: object) -> None:
        # Nothing is imported here: this may come in the middle of an import.
        self.arrived = ending
        for number in self._handlers:
            self._signal.signal(number, self._signal.SIG_IGN)
        try:
            # For the receiving that goes on when this has returned.
            self._connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, _timeval(_UNDO_SECONDS))
            self._connection.send(b"T" + bytes((ending,)), _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        except OSError:
            pass  # it is over already


def _check_server(connection: _socket.socket) -> None:
    """Raise PermissionError for a server that is neither root's nor ours: it is to have our namespaces in its hands."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    if int.from_bytes(credentials[4:8], sys.byteorder) not in {_ROOT_USER, os.geteuid()}:
        raise PermissionError


def _timeval(seconds: float) -> bytes:
    """Return struct timeval."""
    microseconds = int(seconds * 1_000_000)
    return b"".join(part.to_bytes(8, sys.byteorder) for part in divmod(microseconds, 1_000_000))


def _is_open(stream: int) -> bool:
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
