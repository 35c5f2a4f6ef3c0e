"""Writing into files that are there, which costs a small part of making one."""

import os

__all__ = ["overwrite", "write_all"]


def overwrite(path: str, content: bytes, start: int = 0) -> None:
    """Make `content` all that the file holds from byte `start` on; make the file, if it is not there.

    A crash may leave a part of it, and what was there before behind that. Raises OSError.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(file, content, start)
        if os.fstat(file).st_size > start + len(content):
            os.ftruncate(file, start + len(content))
    finally:
        os.close(file)


def write_all(file: int, content: bytes, start: int = 0) -> None:
    """Write `content` from byte `start` on. A disk that is full may take a part; then this raises OSError."""
    while content:
        written = os.pwrite(file, content, start)
        content = content[written:]
        start += written
