"""A command in a container with this process's streams: Kubernetes' remote command protocol over WebSocket.

A runtime answers Exec with a URL. Each message there begins with the number of its channel (k8s.io/apimachinery,
remotecommand/constants.go; k8s.io/streaming, wsstream). Version 5 adds the message that ends a channel.
"""

import json
import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from harness.cri.service import RuntimeServiceError

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_VERSION_5: Final = Subprotocol("v5.channel.k8s.io")
_VERSION_4: Final = Subprotocol("v4.channel.k8s.io")
_CHUNK: Final = 32_768
_RESIZED, _OVER = b"r", b"o"
_DESCRIPTORS: Final = {_STDOUT: 1, _STDERR: 2}


def execute_with_own_streams(url: str, *, terminal: bool, stdin: bool) -> int:
    """Pass streams on until the command ends, and return its exit code. Raises RuntimeServiceError.

    Version 4 cannot tell the command that stdin has ended; with it, a note on stderr says so.
    """
    try:
        # The runtime is on this machine: a proxy of the environment must not be asked.
        connection = connect(
            url.replace("http", "ws", 1),
            subprotocols=[_VERSION_5, _VERSION_4],
            compression=None,
            max_size=None,
            ping_interval=None,
            proxy=None,
        )
    except (OSError, WebSocketException) as error:
        raise RuntimeServiceError(f"cannot attach to the command at {url}: {error}") from error
    with ExitStack() as stack:
        stack.enter_context(connection)
        if terminal and stdin and os.isatty(0):
            stack.enter_context(_raw_terminal())
        stack.enter_context(_sender(connection, terminal=terminal, stdin=stdin))
        return _receive(connection)


def _receive(connection: ClientConnection) -> int:
    """Write output until the command's status comes, and return its exit code."""
    try:
        for message in connection:
            piece = message.encode() if isinstance(message, str) else message
            if not piece:
                continue
            channel, content = piece[0], piece[1:]
            if channel in _DESCRIPTORS:
                _write(_DESCRIPTORS[channel], content)
            elif channel == _ERROR and content:
                return exit_code(json.loads(content))
    except ConnectionClosed as error:
        raise RuntimeServiceError(f"the connection to the command has ended: {error}") from error
    raise RuntimeServiceError("the runtime ended the connection without the command's exit code")


def exit_code(status: dict[str, Any]) -> int:
    """Return the exit code of a command from its metav1.Status. Raises RuntimeServiceError if it did not run."""
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or []
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise RuntimeServiceError(status.get("message") or "the command failed for a reason that the runtime does not tell")


@contextmanager
def _sender(connection: ClientConnection, *, terminal: bool, stdin: bool) -> Iterator[None]:
    """Send stdin and the terminal's size, in a thread of its own.

    A signal's handler must not send, since it may interrupt the holder of the connection's lock: it wakes the thread.
    """
    source, wake = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, source)
        stack.callback(os.close, wake)
        thread = threading.Thread(target=_send, args=(connection, source, terminal, stdin), daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(os.write, wake, _OVER)
        if terminal:
            before = signal.signal(signal.SIGWINCH, lambda *_: os.write(wake, _RESIZED) and None)
            stack.callback(signal.signal, signal.SIGWINCH, before)
            os.write(wake, _RESIZED)
        yield


def _send(connection: ClientConnection, woken: int, terminal: bool, stdin: bool) -> None:  # noqa: FBT001 - a thread's
    sources = [woken, 0] if stdin else [woken]
    with suppress(ConnectionClosed):  # the receiver tells
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                if _OVER in (news := os.read(woken, _CHUNK)):
                    return
                if _RESIZED in news and terminal:
                    columns, lines = shutil.get_terminal_size()
                    size = json.dumps({"Width": columns, "Height": lines})
                    connection.send(bytes([_RESIZE]) + size.encode())
            if 0 in ready:
                piece = os.read(0, _CHUNK)
                if piece:
                    connection.send(bytes([_STDIN]) + piece)
                    continue
                sources.remove(0)
                if connection.subprotocol == _VERSION_5:
                    connection.send(bytes([_CLOSE, _STDIN]))
                else:
                    sys.stderr.write(
                        "The runtime cannot tell the command that its input has ended; Ctrl-C ends this.\n"
                    )


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass each key on as it is, also those typed before; the terminal of the container does the rest."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
