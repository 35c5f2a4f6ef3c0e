"""A verb under `--trace`, `--trace-file` or OpenTelemetry: its trace is recorded, shown and written."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import fast_stdlib
from harness import output
from harness.files import write_atomically
from harness.locations import own_version
from harness.trace_recorder import TraceRecorder
from harness.views.call_tree import TreePrinter
from harness.views.trace_formats import ENDPOINT, ExportError, export, otlp_document, trace_events
from skel.spans import Span, parse_traceparent


@contextmanager
def traced(
    verb: str,
    *,
    tree: bool,
    files: Sequence[Path],
    say: Callable[[str], None],
    take: Callable[[Sequence[Span]], None] | None = None,
) -> Iterator[None]:
    """Record the block, which carries out `verb`: print its tree, and write `files` at its end.

    `take` gets the spans before that. The trace continues the one that TRACEPARENT in the environment names.
    """
    printer = TreePrinter(partial(output.say, styled=True), colour=output.is_coloured(sys.stderr)) if tree else None
    parent = parse_traceparent(os.environ.get("TRACEPARENT", ""))
    exports = bool(os.environ.get(ENDPOINT))
    recorder = TraceRecorder(parent, printer or (lambda _: None), keep=bool(files) or exports or take is not None)
    try:
        with fast_stdlib.recorded_by(recorder), fast_stdlib.span(f"cni-harness {verb}", waits=True):
            yield
    finally:
        if printer is not None:
            printer.finish()
        if take is not None:
            take(recorder.spans)
        _write(recorder, files, say)
        if exports:
            try:
                export(recorder.spans, own_pid=os.getpid())
            except ExportError as error:
                say(f"Warning: {error}")


def _write(recorder: TraceRecorder, files: Sequence[Path], say: Callable[[str], None]) -> None:
    if recorder.dropped:
        say(f"Warning: the trace lacks its last {recorder.dropped} spans")
    for file in files:
        try:
            document = _document(file, recorder.spans).encode()
            # A device or a pipe must not be replaced by a file.
            if file.suffix == ".jsonl" or (file.exists() and not file.is_file()):
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as opened:
                    opened.write(document)
            else:
                write_atomically(file, document, mode=0o600)
        except OSError as error:
            say(f"Warning: no trace is written to {file}: {error.strerror}")


def _document(file: Path, spans: Sequence[Span]) -> str:
    if file.name.endswith(".perfetto.json"):
        return json.dumps(trace_events(spans, own_pid=os.getpid()))

    document = otlp_document(spans, own_pid=os.getpid(), version=own_version())
    return json.dumps(document) + "\n"
