"""The log of a container in the CRI's format: `<time> <stream> <tag> <text>` and a newline.

The time is RFC 3339 with nanoseconds, here always UTC. The tag is F for a full line and P for a part of one: lines of
more than 16,384 bytes are cut, as by containerd, and output may end without a newline. kubelet's reader joins parts.

Also here is the log of an OCI runtime with `--log-format json`. The shim uses this module: it imports the standard
library alone.
"""

import errno
import json
import os
import stat
import time
from contextlib import suppress
from typing import Final

MAX_TEXT: Final = 16_384
"""The bytes of text in one entry at most (containerd's max_container_log_line_size)."""
_STREAMS: Final = ("stdout", "stderr")


def entries(stamp: bytes, stream: str, text: bytes, *, ended: bool = False) -> tuple[bytes, bytes]:
    """Return the entries for `text`, and the text behind the last newline, which waits for more.

    `ended` says that no more comes: the rest is a part, too.
    """
    head = stamp + b" " + stream.encode() + b" "
    *lines, rest = text.split(b"\n")
    written = []
    for line in lines:
        line = line.removesuffix(b"\r")  # noqa: PLW2901 -- containerd drops it
        pieces = [line[at : at + MAX_TEXT] for at in range(0, len(line), MAX_TEXT)] or [b""]
        written += [head + b"P " + piece for piece in pieces[:-1]]
        written.append(head + b"F " + pieces[-1])
    while len(rest) > MAX_TEXT or (ended and rest):
        written.append(head + b"P " + rest[:MAX_TEXT])
        rest = rest[MAX_TEXT:]
    return b"".join(entry + b"\n" for entry in written), rest


class ContainerLog:
    """An open log file, or none if the path is empty. A full disk loses entries; it never stops the container."""

    def __init__(self, path: str) -> None:
        """Open or make the file for appending, mode 0640, and its folder, 0755. Raises OSError."""
        self._fd = -1
        self._waiting = dict.fromkeys(_STREAMS, b"")
        if path:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            # A pod with the folder of logs as a hostPath may have put a FIFO or a link there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o640)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)

    def write(self, stream: str, text: bytes, *, ended: bool = False) -> None:
        """Write the full lines of a stream, and keep the rest for the next call."""
        if self._fd < 0:
            return
        now = time.time_ns()
        seconds, nanoseconds = divmod(now, 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09}Z"
        lines, self._waiting[stream] = entries(stamp.encode(), stream, self._waiting[stream] + text, ended=ended)
        with suppress(OSError):
            while lines:
                lines = lines[os.write(self._fd, lines) :]


def last_error(path: str | os.PathLike[str]) -> str:
    """Return the last message of a log, empty if it has none."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.read().splitlines()[-1])["msg"])
    except (OSError, IndexError, ValueError, KeyError):
        return ""
