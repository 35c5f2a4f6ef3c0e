"""`cni-harness conformance session`, a process that is asked in lines of JSON.

The process finds this installation's packages first. Neither the author's folder, which pytest may be started in, nor
PYTHONPATH can put other packages before them.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

Answer = dict[str, Any]

_SITE: Final = Path(__file__).resolve().parents[1]
"""The folder that has this package and the harness beside it."""
_PROGRAM: Final = f"import sys; sys.path.insert(0, {str(_SITE)!r}); from harness.cli.main import main; main()"


class Session:
    """The process, started at the first question."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, **question: object) -> Answer:
        """Return the answer to one question. Raises RuntimeError if the process ends without one, OSError."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 -- for the types: both are pipes
        assert process.stdout is not None  # noqa: S101 -- for the types
        try:
            with suppress(BrokenPipeError):  # read as the end of the process below
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
        except BaseException:
            # An answer that arrives later would be taken for that of the next question.
            self.end()
            raise
        if not line:
            self.end()
            raise RuntimeError(f"`cni-harness conformance session` ended with exit code {process.returncode}")
        answer: Answer = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process, which first removes the nodes that it made."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        process.wait()

    @staticmethod
    def _start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, "conformance", "session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for pytest, which ends this process
        )


def write_launchers(folder: str | os.PathLike[str]) -> None:
    """Write the executables of this environment's plugins into `folder`. Raises pytest.UsageError."""
    session = Session()
    try:
        answer = session.ask(verb="launchers", folder=os.path.abspath(folder))  # noqa: PTH100 -- no link is followed
    finally:
        session.end()
    if "error" in answer:
        raise pytest.UsageError(answer["error"])
