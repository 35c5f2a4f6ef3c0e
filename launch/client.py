"""The hand-over of launch/launcher.c, for the launcher in Python that takes its place: the server runs the plugin.

A process that does no more than this loads no more than this, so here is no `socket`, no `struct`, and of `skel`
nothing (see `launch.launcher.launcher_text`): the packets of launch/server/protocol.py are put together by hand.
"""

import _socket
import os
import sys
from time import monotonic

_ROOT_USER = 0
_TOKEN_BYTES = 8
_STDIN, _STDOUT, _STDERR = range(3)
_END_BYTES = 9
_PACKET_BYTES = _END_BYTES + (1 << 16)
_DIED = b'{"cniVersion": "1.1.0", "code": 999, "msg": "the server\'s worker died while it ran the plugin"}\n'
_UNDO_SECONDS = 25.0
"""For the worker to undo its steps; it gives up before."""
_DESCRIPTORS = (
    (".", os.O_PATH | os.O_DIRECTORY),
    ("/proc/self/ns/net", os.O_RDONLY),
    ("/proc/self/ns/mnt", os.O_RDONLY),
)


def hand_over(path: str, socket_path: str, build_id: bytes, timeout: float) -> int | None:
    """Have the server run the plugin that the launcher at `path` stands for; return its exit code.

    None when no worker of a server has taken the call within `timeout` seconds: then nothing has been done.
    """
    open_streams = [stream for stream in (_STDIN, _STDOUT, _STDERR) if _is_open(stream)]  # before anything is opened
    deadline = monotonic() + timeout
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    opened: list[int] = []
    try:
        # The kernel's own time limits: connecting a socket that has one of Python's fails where the queue is full.
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _timeval(timeout))
        connection.connect(socket_path)
        _check_server(connection)
        open_descriptors(opened)
        token = opened[-1]
        signals = _Signals(connection, token)  # from before the worker can take the token
        try:
            send(connection, _request(path, build_id), [*opened, *([_STDIN] if _STDIN in open_streams else [])])
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, _timeval(max(0.001, deadline - monotonic())))
            answer = _Answer(os.path.basename(path), open_streams)
            code = answer.receive(connection, token, signals)
        except OSError:
            signals.stop()
            raise
    except OSError:
        return None
    finally:
        # Before anything more is written: one may have the number of a stdout that was closed.
        connection.close()
        for number in opened:
            os.close(number)
    if not answer.is_begun and not answer.is_over and not signals.arrived and _STDOUT in open_streams:
        try:  # noqa: SIM105 -- contextlib would be one more to load
            os.write(_STDOUT, _DIED)
        except OSError:
            pass  # the exit code says it, too
    return signals.end(code)


def _request(path: str, build_id: bytes) -> list[bytes]:
    umask = os.umask(0)
    os.umask(umask)
    return [
        b"CNIH\x04\0\0\0" + build_id + umask.to_bytes(4, sys.byteorder) + os.fsencode(os.path.basename(path)) + b"\0",
        # Not os.environ: that lacks entries without `=`, and Python may have set LC_CTYPE.
        _read("/proc/self/environ"),
    ]


def open_descriptors(opened: list[int]) -> None:
    """Open the descriptors of a request but stdin, the token last; each is in `opened` as soon as it is open."""
    for name, flags in _DESCRIPTORS:
        opened += [os.open(name, flags)]
    opened += [os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)]


def decode_answer(packet: bytes) -> tuple[bytes, bytes, int | None]:
    """Return a packet's text for stderr, its text for stdout, and, of the last one of an answer, the exit code.

    Raises ValueError for any other packet.
    """
    kind, text = packet[:1], packet[1:]
    if kind == b"E":
        return text, b"", None
    if kind == b"O":
        return b"", text, None
    if kind == b"X" and len(packet) >= _END_BYTES:
        log_end = _END_BYTES + int.from_bytes(packet[5:9], sys.byteorder)
        code = int.from_bytes(packet[1:5], sys.byteorder, signed=True)
        return packet[_END_BYTES:log_end], packet[log_end:], code
    raise ValueError(packet)


def take(token: int) -> bool:
    """Take the token, which says whose the call is; False if the worker has it."""
    try:
        return len(os.read(token, _TOKEN_BYTES)) == _TOKEN_BYTES
    except OSError:
        return False


def send(connection: _socket.socket, parts: list[bytes], descriptors: list[int]) -> None:
    """Send a packet, and file descriptors with it. Raises OSError."""
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
    connection.sendmsg(parts, ancillary, _socket.MSG_NOSIGNAL)


def _next_packet(connection: _socket.socket, token: int, signals: "_Signals") -> bytes:
    """Return a packet of the answer, empty at the end. Raises BlockingIOError if no worker takes the token in time."""
    while True:
        try:
            packet = connection.recv(_PACKET_BYTES)
            if packet != b"R":
                return packet
            send(connection, [b"G"], [])
        except BlockingIOError:  # the time limit
            if take(token):
                raise
            if monotonic() >= signals.give_up_at:
                return b""
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, _timeval(_UNDO_SECONDS))
        except OSError:
            return b""


class _Answer:
    """The worker's answer, as far as it has come."""

    def __init__(self, name: str, open_streams: list[int]) -> None:
        self._name = name
        self._open = open_streams
        self._is_lost = False
        self.is_begun = False
        """Whether something is on stdout."""
        self.is_over = False

    def receive(self, connection: _socket.socket, token: int, signals: "_Signals") -> int:
        """Write the answer, and return the exit code. Raises OSError if no worker has taken the token."""
        code = 1
        while not self.is_over:
            packet = _next_packet(connection, token, signals)
            try:
                log, answer, end = decode_answer(packet)
            except ValueError:
                if not self.is_begun and take(token):
                    raise ConnectionRefusedError from None
                break
            self.write(_STDERR, log)
            self.write(_STDOUT, answer)
            if end is not None:
                self.is_over, code = True, end
        return code or int(self._is_lost)

    def write(self, stream: int, text: bytes) -> None:
        """Write to a stream. A failure to write the log is ignored; a failure to write the answer is logged."""
        if not text or (stream == _STDOUT and self._is_lost):
            return
        self.is_begun |= stream == _STDOUT
        try:
            while text:
                # A closed one's number may have been taken meanwhile.
                text = text[os.write(stream if stream in self._open else -1, text) :]
        except OSError as error:
            if stream == _STDOUT:
                self._is_lost = True
                self.write(_STDERR, f"{self._name}: writing to stdout: {error}\n".encode())


class _Signals:
    """Signals that end this process: the worker is told of the first one, and this process dies of it after the worker.

    Unless the worker has succeeded: a runtime that has the result must find exit code 0 with it. If no worker has taken
    the token, this process dies at once.
    """

    def __init__(self, connection: _socket.socket, token: int) -> None:
        import signal

        self._signal = signal
        self._connection = connection
        self._token = token
        self.arrived = 0
        self.give_up_at = float("inf")
        """When to wait for the worker no longer, in seconds of time.monotonic."""
        self._handlers = {
            number: handler
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
            if (handler := signal.getsignal(number)) != signal.SIG_IGN
        }
        for number in self._handlers:
            signal.signal(number, self._on_signal)

    def stop(self) -> None:
        for number, handler in self._handlers.items():
            self._signal.signal(number, handler)
        if self.arrived:
            os._exit(self.end(1))

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
        if take(self._token):
            os._exit(self.end(1))
        self.give_up_at = monotonic() + _UNDO_SECONDS
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
