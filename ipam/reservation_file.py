"""Making the file of a reservation: it has its content before it gets its name."""

import errno
import os

from lean.typing import Callable, Final
from skel.in_place import named, write_all

MODE: Final = 0o600
_NO_LATER_NAME: Final = {errno.ENOENT, errno.EPERM, errno.EOPNOTSUPP}
"""Errors of linkat(2) without /proc, and on file systems without links."""


def make_file(path: str, content: bytes, mark: Callable[[int], None]) -> None:
    """Make a file; `mark` gets its descriptor before the file has its name.

    Raises FileExistsError if anything has that name, and OSError, which names `path`.
    """
    if os.path.lexists(path):  # link(2) would take ten times as long to fail
        raise FileExistsError
    try:
        file = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, MODE)
    except OSError:
        _make_by_name(path, content, mark)
        return
    try:
        write_all(file, content)
        mark(file)
        # Python calls linkat(2), which follows the link, only with src_dir_fd.
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LATER_NAME:
            raise named(error, path) from error
        _make_by_name(path, content, mark)
    finally:
        os.close(file)


def _make_by_name(path: str, content: bytes, mark: Callable[[int], None]) -> None:
    """Make the file on a file system that lacks O_TMPFILE (open(2)), or cannot name such a file later."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        try:
            write_all(file, content)
            mark(file)
        except OSError as error:
            raise named(error, path) from error
        finally:
            os.close(file)
    except BaseException:
        os.unlink(path)
        raise
