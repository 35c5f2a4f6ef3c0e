"""A plugin as this process: the only part of skel that touches os.environ, the standard streams and signals."""

# Without the names that `signal` gives its numbers, which take longer than all that is needed of it here.
import _signal  # type: ignore[import-not-found]
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from errno import EBADF
from typing import TextIO, TypeVar

from .config import Config
from .context import Context, FindPlugin
from .dispatch import dispatch
from .interruption import Interruption
from .plugin import Plugin

__all__ = ["main"]

C = TypeVar("C", bound=Config)

_PATIENCE = 0.25
"""Seconds that VERSION waits for its input to go on; runtimes write it at once."""

_ENOUGH = 1 << 16
"""Bytes of VERSION's input that are read."""


def main(
    plugin: Plugin[C],
    before_answer: Callable[[], object] = lambda: None,
    context: Context | None = None,
    find_plugin: FindPlugin = lambda _: None,
) -> int:
    """Run `plugin` as this process: environment and stdin in, stdout, stderr and exit code out.

    `before_answer` is called before anything is written to stdout. SIGHUP, SIGINT and SIGTERM end the call and then, by
    their default action, the process: an ADD has taken back its steps and says so on stdout. One that had come to its
    end before succeeds. They are ignored after a success, so call this last. With a `context` of the caller's,
    signals are left to the caller. Without one, `find_plugin` is the context's.
    """
    if context is None:
        context = Context(find_plugin=find_plugin)
        ending = _Ending(context.interruption)
        code = _answered(plugin, before_answer, context)
        context.finish()  # this process could not end before a system call of its threads does
        return ending.end(code)
    return _answered(plugin, before_answer, context)


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


def _answered(plugin: Plugin[C], before_answer: Callable[[], object], context: Context) -> int:
    """Dispatch with this process's environment and stdin, write the answer and return the exit code."""
    stdout, sys.stdout = sys.stdout, sys.stderr  # where a stray print does no harm
    read_stdin = _read_promptly if os.environ.get("CNI_COMMAND") == "VERSION" else _read_stdin
    try:
        outcome = dispatch(plugin, os.environ, read_stdin, context)
    finally:
        sys.stdout = stdout
    context.interruption.settle()
    with suppress(OSError):  # the log is worth less than the answer
        _write(sys.stderr, outcome.stderr)
    if outcome.stdout:
        before_answer()
    try:
        _write(sys.stdout, outcome.stdout)
    except OSError as error:
        with suppress(OSError):
            _write(sys.stderr, f"{plugin.name}: writing to stdout: {error}\n".encode())
        return outcome.code or 1
    return outcome.code


def _read_stdin() -> bytes:
    """Return all of stdin. Raises OSError, also when the caller closed it: then Python has None in its place."""
    if sys.stdin is None:
        raise OSError(EBADF, os.strerror(EBADF))
    return sys.stdin.buffer.read()


def _read_promptly() -> bytes:
    """Return the bytes that come on stdin without delay, for a verb that needs none. Raises OSError.

    A person who asks for the versions by hand sends nothing and leaves stdin open.
    """
    from select import select

    if sys.stdin is None:
        raise OSError(EBADF, os.strerror(EBADF))
    descriptor, found = sys.stdin.fileno(), b""
    while len(found) < _ENOUGH and not os.isatty(descriptor) and select([descriptor], [], [], _PATIENCE)[0]:
        read = os.read(descriptor, _ENOUGH)
        found += read
        if not read:
            break
    return found


def _write(stream: TextIO | None, text: bytes) -> None:
    # Not by the stream's buffer: the interpreter would try again at exit with what could not be written.
    while text:
        if stream is None:
            raise OSError(EBADF, os.strerror(EBADF))
        text = text[os.write(stream.fileno(), text) :]
