"""The reports of plugins (`skel.trace`): a file in memory, given to one execution of a plugin."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from harness.trace_recorder import TraceRecorder
from skel.environment import TRACE
from skel.spans import Span, decoded

_MOST: Final = 4 << 20
"""Bytes of one execution that are read."""


class Delegation(NamedTuple):
    """One run of a delegate, as reported by the plugin that called it."""

    path: str
    environ: Mapping[str, str]
    stdin: bytes
    stdout: bytes
    stderr: bytes
    exit_code: int
    seconds: float


class Reports:
    """The file, until the end of the with block. It is never on a disk."""

    def __init__(self) -> None:
        self._read = 0
        self._delegations: list[Delegation] = []
        self._spans: dict[str, Span] = {}

    def __enter__(self) -> Self:
        self._file = os.memfd_create(TRACE)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def environ(self) -> dict[str, str]:
        """The variable that names the file to the plugin."""
        return {TRACE: f"/proc/{os.getpid()}/fd/{self._file}"}

    def delegations(self) -> tuple[Delegation, ...]:
        """Return the reported delegates, in the order in which they ended; invalid lines are left out."""
        found = []
        for line in os.pread(self._file, _MOST, 0).splitlines():
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                found.append(_delegation(json.loads(line)))
        return tuple(found)

    def pass_on(self, recorder: TraceRecorder) -> None:
        """Give the spans that were reported since the last call to the recorder of the execution's span.

        A span with an unknown parent becomes the child of the execution's. Invalid lines are left out.
        """
        text = os.pread(self._file, _MOST - self._read, self._read)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                span = decoded(json.loads(line))
                known = self._spans.get(span.span_id)
                if known is None:
                    if span.parent_id not in self._spans:
                        span.parent_id = recorder.current_id()
                    span.trace_id = recorder.trace_id
                    self._spans[span.span_id] = span
                recorder.adopt(span, known)

    def has_spans(self) -> bool:
        """Tell whether a plugin has reported any span."""
        return bool(self._spans)


def _delegation(report: Any) -> Delegation:  # noqa: ANN401 -- JSON of any shape
    """Raises ValueError, TypeError, KeyError, AttributeError."""
    stdin, stdout, stderr = (report[name].encode(errors="surrogateescape") for name in ("stdin", "stdout", "stderr"))
    environ = {str(name): str(value) for name, value in report["environ"].items()}
    return Delegation(
        str(report["path"]), environ, stdin, stdout, stderr, int(report["exitCode"]), float(report["seconds"])
    )
