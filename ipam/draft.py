"""Files that are there as a whole or not at all, whatever happens meanwhile."""

import os
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

__all__ = ["TEMPORARY", "Draft", "replace"]

TEMPORARY: Final = ".temporary"
"""A file not yet in place. The name need not be unique: whoever writes it holds the folder's lock."""


class Draft:
    """Content that is safe on the disk and has no name yet; it can be given several.

    It is a file that never had a name (O_TMPFILE, open(2)), so nobody sees it and
    a crash leaves nothing. A few file systems have no such files, and without /proc
    they cannot be named: there, giving it a name writes a temporary file.
    """

    def __init__(self, folder: str, content: bytes) -> None:
        """Write `content` to the disk that `folder` is on. Raises OSError when it is full."""
        self._folder = folder
        self._content = content
        self._temporary = ""
        try:
            self._file = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            self._file = -1
            return
        try:
            _write(self._file, content)
            os.fsync(self._file)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)

    def link(self, name: str) -> bool:
        """Give it a name in the folder, whose lock is held; False when that is taken. Raises OSError."""
        path = os.path.join(self._folder, name)
        if self._file >= 0 and not self._temporary:
            try:
                # Naming a folder to start from is what makes Python call linkat(2), which follows the link.
                os.link(f"/proc/self/fd/{self._file}", path, src_dir_fd=self._file, follow_symlinks=True)
            except FileExistsError:
                return False
            except FileNotFoundError:
                pass  # no /proc
            else:
                return True
        if not self._temporary:
            self._temporary = _write_temporary(self._folder, self._content, flush=True)
        try:
            os.link(self._temporary, path)
        except FileExistsError:
            return False
        return True


def replace(folder: str, name: str, content: bytes) -> None:
    """Write the file `name` by renaming; it is not flushed, so a power failure may take it. Raises OSError."""
    os.replace(_write_temporary(folder, content, flush=False), os.path.join(folder, name))


def _write_temporary(folder: str, content: bytes, *, flush: bool) -> str:
    path = os.path.join(folder, TEMPORARY)
    # A crash may have left one that is linked to a reservation: never write into that.
    with suppress(FileNotFoundError):
        os.unlink(path)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _write(file, content)
        if flush:
            os.fsync(file)
    finally:
        os.close(file)
    return path


def _write(file: int, content: bytes) -> None:
    # A disk that is full may take a part; the rest then raises.
    while content:
        content = content[os.write(file, content) :]
