"""Files of plugins: each is written whole under a new name, then renamed. A crash leaves the old file or the new one.

`StateFiles` keeps the state that an ADD stores for CHECK and DEL, one JSON object for each attachment.
"""

import errno
import os

from fast_stdlib import json
from fast_stdlib.contextlib import suppress
from fast_stdlib.functools import partial
from fast_stdlib.typing import TYPE_CHECKING

from .environment import check_container_id, check_ifname
from .errors import CniError, Code
from .regular_files import NotRegularError, named, read_regular
from .strict_json import decode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import FileIO

_JOINT = ":"
"""No container ID and no interface name has it, so two attachments never share a file name."""


class StateFiles:
    """State of attachments: in `folder`, one file for each pair of container ID and interface name.

    Give each network a folder of its own: GC names the valid attachments of one network only. In /run the files end
    with the boot, as pods do. Names are checked: none leads out of the folder.
    """

    def __init__(self, folder: str) -> None:
        """Note the folder; `write` makes it, for root alone."""
        self._folder = folder

    def write(self, container_id: str, ifname: str, state: "Mapping[str, object]") -> None:
        """Store `state` as JSON, in place of the state before. Raises CniError (4), OSError.

        Write before the step that the state is about: DEL must know of a step that a crash cut short.
        """
        path, temporary = self._paths(container_id, ifname)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # of a crash: runtimes run one call of an attachment at a time
        try:
            _write(path, temporary, partial(_fill, content=json.dumps(dict(state)).encode(), mode=0o600))
        except OSError as error:
            raise named(error, path) from error

    def read(self, container_id: str, ifname: str) -> "dict[str, object] | None":
        """Return the state of an attachment, None if none is stored. Raises CniError (4, 6), OSError."""
        path, _ = self._paths(container_id, ifname)
        try:
            state = decode_json(read_regular(path, os.O_NOFOLLOW)[0])
        except FileNotFoundError:
            return None
        except NotRegularError:
            raise CniError(Code.DECODING_FAILURE, f"{path}: not a regular file") from None
        except ValueError as error:
            raise CniError(Code.DECODING_FAILURE, f"{path}: {error}") from None
        if not isinstance(state, dict):
            raise CniError(Code.DECODING_FAILURE, f"{path}: expected an object")
        return state

    def remove(self, container_id: str, ifname: str) -> None:
        """Remove the state of an attachment, if any is stored. Raises CniError (4), OSError."""
        for path in self._paths(container_id, ifname):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def attachments(self) -> list[tuple[str, str]]:
        """Return container ID and interface name of each attachment with state, for GC. Raises OSError."""
        return [(container_id, ifname) for container_id, _, ifname in map(_parts, self._names(are_state=True))]

    def strays(self) -> list[str]:
        """Return the paths of entries that are no state: folders, links, FIFOs, other names. Raises OSError."""
        return [os.path.join(self._folder, name) for name in self._names(are_state=False)]

    def _names(self, *, are_state: bool) -> list[str]:
        try:
            with os.scandir(self._folder) as entries:
                shown = [entry for entry in entries if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        return sorted(entry.name for entry in shown if _is_state(entry) == are_state)

    def _paths(self, container_id: str, ifname: str) -> tuple[str, str]:
        check_container_id(container_id)
        check_ifname(ifname)
        name = f"{container_id}{_JOINT}{ifname}"
        return os.path.join(self._folder, name), os.path.join(self._folder, f".{name}.new")


def _parts(name: str) -> tuple[str, str, str]:
    return name.partition(_JOINT)


def _is_state(entry: os.DirEntry[str]) -> bool:
    container_id, _, ifname = _parts(entry.name)
    try:
        check_container_id(container_id)
        check_ifname(ifname)
    except CniError:
        return False
    return entry.is_file(follow_symlinks=False)


def write_whole(
    path: str,
    content: bytes,
    *,
    mode: int,
    like: "os.stat_result | None" = None,
    durable: bool = False,
    renamed: bool = False,
) -> None:
    """Write a file in place of any of that name; a process that reads or runs the old file keeps it.

    `mode` does not depend on the umask; with `like`, mode and owner are those of that status. A `durable` file
    survives a power cut, which costs milliseconds on a busy disk. The new file has no name until it is whole, so a
    crash leaves nothing. Only a crash while it replaces a file, or on a file system without O_TMPFILE, may leave a
    hidden `.NAME.XXXXXXXX.tmp`. With `renamed`, the file always has that name first: containerd passes over
    inotify's IN_CREATE and IN_MOVED_TO in its folder of network lists, and reads the folder at IN_MOVED_FROM.
    Raises OSError, which names `path`.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
    fill = partial(_fill, content=content, mode=mode, like=like, durable=durable)
    try:
        if renamed:
            _write(path, temporary, fill)
        else:
            _write_unnamed(path, temporary, fill)
        if durable:
            _flush(folder or ".")
    except OSError as error:
        raise named(error, path) from error


def _write_unnamed(path: str, temporary: str, fill: "Callable[[FileIO], None]") -> None:
    """Fill a file without a name, and give it its name; by `temporary` on a file system without O_TMPFILE."""
    folder = os.path.dirname(path)
    try:
        unnamed = os.open(folder or ".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR}:
            raise
        _write(path, temporary, fill)
    else:
        with open(unnamed, "wb", buffering=0) as file:
            fill(file)
            # A program that is open for writing cannot be executed (ETXTBSY), not even for a moment after its naming.
            whole = os.open(f"/proc/self/fd/{unnamed}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _put_in_place(whole, temporary, path)
        finally:
            os.close(whole)


def _write(path: str, temporary: str, fill: "Callable[[FileIO], None]") -> None:
    # A link of that name is not followed: in a folder such as /tmp anybody may have put one there.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb", buffering=0) as file:
            fill(file)
        os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _fill(
    file: "FileIO", *, content: bytes, mode: int, like: "os.stat_result | None" = None, durable: bool = False
) -> None:
    if like is not None:
        mode = like.st_mode & 0o777
        with suppress(PermissionError):  # only root may give a file away
            os.fchown(file.fileno(), like.st_uid, like.st_gid)
    os.fchmod(file.fileno(), mode)
    while content:
        content = content[file.write(content) :]
    if durable:
        os.fsync(file.fileno())


def _put_in_place(fd: int, temporary: str, path: str) -> None:
    """Give an unnamed file its name, as open(2) says for O_TMPFILE."""
    # Any src_dir_fd makes Python call linkat(2) with AT_SYMLINK_FOLLOW; its link(2) would link the symbolic link.
    try:
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)
    except FileExistsError:  # a link never replaces
        os.link(f"/proc/self/fd/{fd}", temporary, src_dir_fd=fd)
        os.rename(temporary, path)


def _flush(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
