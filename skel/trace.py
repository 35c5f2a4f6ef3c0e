"""Reports of plugins about their steps, and about the delegates that they call, for a view of the whole protocol.

CNI_HARNESS_TRACE in a plugin's environment is the path of a file. The plugin appends lines to it, each a JSON object:
one for each delegate that ends, and one for each span (`skel.spans`). Plugins in other languages may do the same.
TRACEPARENT names the span that the plugin's spans are inside of. Without CNI_HARNESS_TRACE nothing is done.
"""

import os
from time import time_ns

import fast_stdlib
from fast_stdlib import json
from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Mapping

from .dispatch import Outcome
from .environment import TRACE
from .spans import Parent, Span, SpanStack, encoded, parse_traceparent

_PROMPTLY_NS = 20_000_000
"""Spans that end later than this after the last write are written at once: somebody may be watching."""


def recorded(plugin: str, environ: Mapping[str, str], act: Callable[[], Outcome]) -> Outcome:
    """Carry out a call, and report its spans; the first is PluginMain. Raises what `act` raises."""
    if fast_stdlib.recorder() is not None:  # a delegate in the process of its caller
        return _main(plugin, environ, act)
    parent = parse_traceparent(environ.get("TRACEPARENT", ""))
    if parent is not None and not parent.is_sampled:
        return act()
    taking = FileRecorder(environ[TRACE], parent)
    try:
        with fast_stdlib.recorded_by(taking):
            return _main(plugin, environ, act)
    finally:
        taking.close()


def _main(plugin: str, environ: Mapping[str, str], act: Callable[[], Outcome]) -> Outcome:
    identity = {name: environ[name] for name in ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME") if environ.get(name)}
    with fast_stdlib.span("PluginMain", waits=False, plugin=plugin, **identity):
        outcome = act()
        if outcome.code != 0:
            fast_stdlib.span_note(exit_code=outcome.code, error=f"exit code {outcome.code}")
        return outcome


class FileRecorder(SpanStack):
    """Appends spans to a file, in the order in which they began: in one write, if the call is short.

    A span that may last is written as it begins, too, without its end. So a plugin that hangs shows where. A file that
    cannot be written gets none.
    """

    def __init__(self, path: str, parent: Parent | None) -> None:
        """Open nothing yet."""
        super().__init__(parent)
        self._path = path
        self._file = -1
        self._noted: list[Span] = []
        self._lines: list[str] = []
        self._written_ns = time_ns()

    def began(self, span: Span, *, waits: bool) -> None:
        """Note a span that begins."""
        span.is_noted = True
        self._noted.append(span)
        if waits:
            self.flush()

    def ended(self, span: Span) -> None:
        """Note a span that has ended."""
        if not span.is_noted:
            span.is_noted = True
            self._noted.append(span)
        if span.end_ns - self._written_ns > _PROMPTLY_NS:
            self.flush()

    def add(self, line: str) -> None:
        """Note a line that is no span."""
        self._lines.append(line)

    def flush(self) -> None:
        """Write all that has been noted."""
        lines, noted = self._lines, self._noted
        if not lines and not noted:
            return
        self._lines, self._noted = [], []
        for span in noted:
            span.is_noted = False
            lines.append(encoded(span))
        self._written_ns = time_ns()
        with suppress(OSError):
            if self._file < 0:
                # O_NONBLOCK: a FIFO without a reader must not make the plugin wait.
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._file, ("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        """Write the rest, and close the file."""
        self.flush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def report(file: str, *, path: str, environ: Mapping[str, str], stdin: bytes, outcome: Outcome, seconds: float) -> None:
    """Append a line for the delegate at `path`, which took `seconds`. A file that cannot be written gets none."""
    line = {
        "path": path,
        "environ": {name: value for name, value in environ.items() if name.startswith("CNI_") and name != TRACE},
        "stdin": _text(stdin),
        "stdout": _text(outcome.stdout),
        "stderr": _text(outcome.stderr),
        "exitCode": outcome.code,
        "seconds": seconds,
    }
    taking = fast_stdlib.recorder()
    if isinstance(taking, FileRecorder):
        taking.add(json.dumps(line))
    else:  # TRACEPARENT asks for no spans
        alone = FileRecorder(file, None)
        alone.add(json.dumps(line))
        alone.close()


def _text(stream: bytes) -> str:
    return stream.decode(errors="surrogateescape")
