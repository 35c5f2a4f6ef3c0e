"""The progress of `cni-harness conformance` on stderr: one line on a terminal, otherwise a line now and then."""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from harness.output import replace_line, say

if TYPE_CHECKING:
    from harness.conformance.finding import Finding

_SECONDS: Final = 10.0
"""The time between two lines, if stderr is no terminal."""


class Progress:
    """Tells how many checks are done, until the end of the with block, which erases the line on a terminal."""

    def __init__(self, interval: float = _SECONDS) -> None:
        """Tell nothing yet. Without a terminal, lines are `interval` seconds apart."""
        self._interval = interval
        self._is_terminal = sys.stderr.isatty()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = 0
        self._line = ""

    def __enter__(self) -> Self:
        if not self._is_terminal:
            self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._write("")

    def show(self, finding: "Finding", done: int, total: int) -> None:
        """Tell that a check has ended, one of `total` for its plugin."""
        self._failed += finding.outcome in {"fail", "error"} and not finding.known
        if self._is_terminal:
            self._write(f"{finding.subject}: {done}/{total} {finding.check.id} {finding.outcome}")
        self._line = f"{done}/{total} checks of {finding.subject}, {self._failed} failed so far"

    def remark(self, message: str) -> None:
        """Tell something besides the findings."""
        self._write("")
        say(message)

    def _repeat(self) -> None:
        while not self._ended.wait(self._interval):
            if self._line:
                say(self._line)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            replace_line(text)
