"""The delegates that plugins report (`skel.trace`): a file in memory, given to one execution of a plugin."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

from skel.strict_json import decode_json
from skel.trace import VARIABLE

__all__ = ["Delegation", "Delegations"]


class Delegation(NamedTuple):
    """One run of a delegate, as reported by the plugin that called it."""

    path: str
    environ: Mapping[str, str]
    stdin: bytes
    stdout: bytes
    stderr: bytes
    exit_code: int
    seconds: float


class Delegations:
    """The file, until the end of the with block. It is never on a disk."""

    def __enter__(self) -> Self:
        self._file = os.memfd_create(VARIABLE)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def environ(self) -> dict[str, str]:
        """The variable that names the file to the plugin."""
        return {VARIABLE: f"/proc/{os.getpid()}/fd/{self._file}"}

    def reported(self) -> tuple[Delegation, ...]:
        """Return the reports, in the order in which the delegates ended; invalid lines are left out."""
        size = os.fstat(self._file).st_size
        return tuple(_read(os.pread(self._file, size, 0)))


def _read(text: bytes) -> Iterator[Delegation]:
    for line in text.splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            yield _decoded(decode_json(line))


def _decoded(report: Any) -> Delegation:  # noqa: ANN401 -- JSON of any shape
    """Raises ValueError, TypeError, KeyError, AttributeError."""
    stdin, stdout, stderr = (report[name].encode(errors="surrogateescape") for name in ("stdin", "stdout", "stderr"))
    environ = {str(name): str(value) for name, value in report["environ"].items()}
    return Delegation(
        str(report["path"]), environ, stdin, stdout, stderr, int(report["exitCode"]), float(report["seconds"])
    )
