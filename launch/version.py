"""VERSION without the rest: runtimes ask every plugin for its versions all the time, and the full way takes 10 ms more.

`answer` replies to a plain request: one of our plugins, and an input that is empty or holds `cniVersion` alone. It does
so as the dispatcher would, to the byte. It leaves all other requests to `launch.launcher.main`, with the input that it
has read. A process that answers here loads this module and the table of plugins.
"""

import posix
import sys
from select import select

from launch import PLUGINS

VERSIONS_BY_CONFIG = frozenset({"noop"})
"""Our plugins whose configuration says which versions they support; the others support `SUPPORTED`."""

# As in skel.versions: importing that would load all of skel.
SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

_ENOUGH = 4096
"""Bytes; a plain request has 25."""
_SPACE = b" \t\r\n"
"""The white space of JSON (RFC 8259 section 2)."""


def answer(path: str) -> tuple[bytes, int | None]:
    """Answer a VERSION of the plugin that the launcher's file name names, if the request is plain.

    Returns the bytes that it has read of stdin, and the exit code: None if the request is not plain. Then nothing was
    written.
    """
    name = path.rpartition("/")[2]
    # Python has None for a stream that was closed: its number may be another file's by now.
    if name not in PLUGINS or name in VERSIONS_BY_CONFIG or None in {sys.stdin, sys.stdout, sys.stderr}:
        return b"", None
    found, ended = _read_what_is_there()
    version = _version_asked(found) if ended else None
    if version is None:
        return found, None
    supported = '", "'.join(SUPPORTED)
    return found, _write(name, f'{{"cniVersion": "{version}", "supportedVersions": ["{supported}"]}}\n'.encode())


def _read_what_is_there() -> tuple[bytes, bool]:
    """Return the bytes of stdin that are there without waiting, and whether stdin has ended."""
    found = b""
    try:
        while len(found) < _ENOUGH and not posix.isatty(0) and select([0], [], [], 0)[0]:
            read = posix.read(0, _ENOUGH)
            if not read:
                return found, True
            found += read
    except OSError:
        return found, False  # the next read gets the error again
    return found, False


def _version_asked(document: bytes) -> str | None:
    """Return the version in a JSON object that holds nothing else, ours for an empty input; None for any other."""
    if not document:
        return SUPPORTED[-1]
    parts = document.split(b'"')
    if len(parts) != 5 or parts[1] != b"cniVersion":  # noqa: PLR2004 -- two strings and the text around them
        return None
    if [part.strip(_SPACE) for part in parts[::2]] != [b"{", b":", b"}"]:
        return None
    version = parts[3].decode("latin-1")
    return version if version in SUPPORTED else None


def _write(name: str, text: bytes) -> int:
    try:
        while text:
            text = text[posix.write(1, text) :]
    except OSError as error:
        from fast_stdlib.contextlib import suppress

        with suppress(OSError):
            posix.write(2, f"{name}: writing to stdout: {error}\n".encode())
        return 1
    return 0
