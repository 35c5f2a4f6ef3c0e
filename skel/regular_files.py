"""Reading and writing existing regular files: a write costs a small part of making a file.

No open here waits, and no write follows a symbolic link. So a user who can make names in
the folder cannot block a plugin with a FIFO, nor redirect its writes to another file.
"""

import errno
import os
import stat

_NOT_REGULAR = {errno.ELOOP, errno.ENXIO}
"""The errors of open(2) for a symbolic link with O_NOFOLLOW, and for a socket or a FIFO without a reader."""


class NotRegularError(OSError):
    """The name belongs to a symbolic link, a FIFO, a device, a socket or a folder."""


def named(error: OSError, path: str) -> OSError:
    """Return the error with the path of the file: calls on a descriptor name none, or one below /proc/self/fd."""
    return OSError(error.errno, error.strerror, path)


def open_regular(path: str, flags: int, mode: int = 0o600) -> tuple[int, os.stat_result]:
    """Open a regular file, and return its descriptor and status. Raises NotRegularError, and OSError."""
    try:
        file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
        raise _not_regular(path) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise _not_regular(path)
    return file, status


def read_regular(path: str, flags: int = 0) -> tuple[bytes, os.stat_result]:
    """Return the content and the status of a regular file. Raises NotRegularError, and OSError."""
    file, status = open_regular(path, os.O_RDONLY | flags)
    try:
        size = status.st_size + 1
        content = b""
        while len(part := os.read(file, size)) == size:
            content += part
        return content + part, status
    finally:
        os.close(file)


def overwrite(path: str, content: bytes, start: int | None = None, *, modified: int | None = None) -> None:
    """Replace the file's content, or write `content` from byte `start` on; make the file if it is missing.

    A new file replaces anything that is neither a regular file nor a folder. `modified` becomes the file's
    modification time, in seconds since 1970. After a crash the file may have a part of the new content, followed by
    the old content. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    try:
        file, status = open_regular(path, flags)
    except NotRegularError:
        os.unlink(path)
        file, status = open_regular(path, flags | os.O_EXCL)
    try:
        write_all(file, content, start or 0)
        if start is None and status.st_size > len(content):
            os.ftruncate(file, len(content))
        if modified is not None:
            os.utime(file, (modified, modified))
    except OSError as error:
        raise named(error, path) from error
    finally:
        os.close(file)


def write_all(file: int, content: bytes, start: int = 0) -> None:
    """Write `content` from byte `start` on. Raises OSError, also if a full disk takes only a part."""
    while content:
        written = os.pwrite(file, content, start)
        content = content[written:]
        start += written


def _not_regular(path: str) -> NotRegularError:
    return NotRegularError(errno.EINVAL, "not a regular file", path)
