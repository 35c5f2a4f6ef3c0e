"""A plugin as this process: the only part of skel that touches os.environ, the standard streams and signals."""

# Without the names that `signal` gives its numbers, which take longer than all that is needed of it here.
import _signal  # type: ignore[import-not-found] # it has no stubs
import os
import sys
from errno import EBADF

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import TextIO, TypeVar

from .config import Config
from .dispatch import dispatch
from .errors import CniError, Code
from .interruption import Interruption
from .plugin import Context, FindPlugin, Plugin

C = TypeVar("C", bound=Config)

_TIMEOUT = 0.25
"""Seconds that VERSION waits for its input to go on; runtimes write it at once."""

_ENOUGH = 1 << 16
"""Bytes of VERSION's input that are read."""

_MOST = 1 << 24
"""Bytes of input. A GC with 20,000 attachments, each in two lists, has 5 MiB."""


def main(plugin: Plugin[C], find_plugin: FindPlugin = lambda _: None, read: bytes = b"") -> int:
    """Run `plugin` as this process: environment and stdin in, stdout, stderr and exit code out.

    SIGHUP, SIGINT and SIGTERM end the call and then, by their default action, the process: an ADD has taken back its
    steps and says so on stdout. One that had come to its end before succeeds. They are ignored after a success, so call
    this last. `find_plugin` is the context's. `read` is the beginning of stdin, which the caller has read.
    """
    context = Context(find_plugin=find_plugin)
    ending = _Ending(context.interruption)
    code = _answered(plugin, context, read)
    context.finish()  # this process could not end before a system call of its threads does
    return ending.end(code)


class _Ending:
    """The signals that end a process by their default action, for a process that runs a plugin."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption
        self._arrived: list[int] = []
        numbers = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
        self._numbers = [number for number in numbers if _signal.getsignal(number) != _signal.SIG_IGN]
        self._set(self._on_signal)

    def end(self, code: int) -> int:
        """Return the exit code, unless a signal has interrupted the call: then die of that signal."""
        # A runtime that has the result must find exit code 0 with it, also if a signal comes before the process ends.
        self._set(_signal.SIG_DFL if code else _signal.SIG_IGN)
        if code and self._arrived:
            os.kill(os.getpid(), self._arrived[0])
            return 128 + self._arrived[0]  # the first process of a PID namespace survives itself
        return code

    def _set(self, action: object) -> None:
        with suppress(ValueError):  # not the main thread, which alone has handlers
            for number in self._numbers:
                _signal.signal(number, action)

    def _on_signal(self, number: int, _: object) -> None:
        self._arrived.append(number)
        self._interruption.request(f"ended by signal {number}")


def _answered(plugin: Plugin[C], context: Context, found: bytes) -> int:
    """Dispatch with this process's environment and stdin, write the answer and return the exit code."""
    stdout, sys.stdout = sys.stdout, sys.stderr  # a stray print does no harm there
    stdin = None if sys.stdin is None else 0
    read = read_promptly if os.environ.get("CNI_COMMAND") == "VERSION" else read_all
    try:
        outcome = dispatch(plugin, os.environ, lambda: read(stdin, found), context)
    finally:
        sys.stdout = stdout
    context.interruption.settle()
    with suppress(OSError):  # the log is worth less than the answer
        _write(sys.stderr, outcome.stderr)
    try:
        _write(sys.stdout, outcome.stdout)
    except OSError as error:
        with suppress(OSError):
            _write(sys.stderr, f"{plugin.name}: writing to stdout: {error}\n".encode())
        return outcome.code or 1
    return outcome.code


def read_all(stdin: int | None, found: bytes = b"") -> bytes:
    """Return all of a plugin's stdin, None if the caller closed it, after the part in `found`.

    Raises OSError, and CniError (6) beyond 16 MiB.
    """
    parts, size = [found], len(found)
    while part := os.read(_open(stdin), _ENOUGH):
        parts.append(part)
        size += len(part)
        if size > _MOST:
            raise CniError(Code.DECODING_FAILURE, f"network configuration: expected at most {_MOST} bytes on stdin")
    return b"".join(parts)


def read_promptly(stdin: int | None, found: bytes = b"") -> bytes:
    """Return the bytes that come on stdin without delay, for a verb that needs none. Raises OSError.

    A person who asks for the versions by hand sends nothing and leaves stdin open.
    """
    from select import select

    descriptor = _open(stdin)
    while len(found) < _ENOUGH and not os.isatty(descriptor) and select([descriptor], [], [], _TIMEOUT)[0]:
        read = os.read(descriptor, _ENOUGH - len(found))
        found += read
        if not read:
            break
    return found


def _open(stdin: int | None) -> int:
    if stdin is None:
        raise OSError(EBADF, os.strerror(EBADF))
    return stdin


def _write(stream: TextIO | None, text: bytes) -> None:
    # Not by the stream's buffer: the interpreter would try to write the rest again at exit.
    while text:
        if stream is None:
            raise OSError(EBADF, os.strerror(EBADF))
        text = text[os.write(stream.fileno(), text) :]
