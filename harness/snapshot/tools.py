"""The tools that look at the kernel: ip, bridge, tc, nft, iptables-save. They only list, and change nothing."""

import codecs
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from harness.snapshot.state import SnapshotError

_MORE_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"
"""A root shell without a login may lack these."""

_ROUNDS: Final = 10
"""A dump that changes while it is read is read again, so many times."""

_INTERRUPTED: Final = "interrupted"
_JSON: Final = json.JSONDecoder(strict=False)
"""ip(8) does not escape the control characters of an interface's name, and a pod may name its own."""
_ESCAPED: Final = "in-json"


@cache
def find_tool(name: str) -> str | None:
    """Return the path of a program, None if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_MORE_FOLDERS}")


def _escaped_in_json(error: UnicodeError) -> tuple[str, int]:
    """Stand for bytes that are not UTF-8, in a JSON string; see codecs.register_error."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"\\\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_ESCAPED, _escaped_in_json)


class Listing:
    """One running execution of a tool; started in the network namespace of the thread that made it."""

    def __init__(self, command: Sequence[str], stdin: str = "") -> None:
        """Start `command`. Raises SnapshotError."""
        self._command = command
        self._stdin = stdin
        self._process = _spawn(command, stdin)

    def text(self, errors: str = "backslashreplace") -> str:
        """Return its standard output; `errors` names the handler of bytes that are not UTF-8.

        Raises SnapshotError with its message if it failed.
        """
        complaint = ""
        for _ in range(_ROUNDS):
            output, complaint = (stream.decode(errors=errors) for stream in self._process.communicate())
            if self._process.returncode == 0:
                return output
            if _INTERRUPTED not in complaint:
                break
            self._process = _spawn(self._command, self._stdin)
        message = " ".join(complaint.split()) or f"ended with {self._process.returncode}"
        raise SnapshotError(f"{' '.join(self._command)}: {message}")

    def documents(self, count: int) -> list[Any]:
        """Return the JSON documents that it printed, one for each of `count` commands. Raises SnapshotError."""
        output, position, found = self.text(_ESCAPED).strip(), 0, []
        while position < len(output):
            try:
                document, position = _JSON.raw_decode(output, position)
            except ValueError:
                raise SnapshotError(f"{self._command[0]} printed what is not JSON: {output[position:][:200]}") from None
            found.append(document)
            while position < len(output) and output[position].isspace():
                position += 1
        if len(found) != count:
            raise SnapshotError(f"{' '.join(self._command)} answered {len(found)} of {count} questions")
        return found

    def cancel(self) -> None:
        """End it, because its output is not needed any more."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


class NothingListed(Listing):
    """In place of a tool that was not started, because it would list nothing."""

    def __init__(self) -> None:
        """Start nothing."""

    def documents(self, count: int) -> list[Any]:
        """Return empty lists, one for each of `count` commands."""
        return [[] for _ in range(count)]

    def text(self, errors: str = "backslashreplace") -> str:
        """Return an empty text."""
        del errors
        return ""

    def cancel(self) -> None:
        """Leave nothing to end."""


def start(tool: str, *arguments: str, batch: Sequence[str] = ()) -> Listing:
    """Start a tool, with commands for its `-batch -`. Raises SnapshotError, also if it is not installed."""
    path = find_tool(tool)
    if path is None:
        raise SnapshotError(f"{tool} has gone")
    lines = "".join(f"{line}\n" for line in batch)
    return Listing([path, *arguments, *(("-batch", "-") if batch else ())], lines)


def _spawn(command: Sequence[str], stdin: str) -> "subprocess.Popen[bytes]":
    try:
        process = subprocess.Popen(
            command,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise SnapshotError(f"{command[0]}: {error.strerror}") from error
    if process.stdin is not None:
        # Written at once, so that it works while others are started; far less than a pipe holds.
        # A tool that has ended already has an error message, which is read later.
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin.encode())
        process.stdin = None
    return process
