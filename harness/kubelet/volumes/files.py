"""The files of volumes: a folder of files that changes as a whole, and files for a pod's fsGroup.

Files are written as by Kubernetes' volume/util/atomic_writer.go: they are in a folder of a new name. The link `..data`
leads to it, and each visible name is a link through that. A change replaces `..data` by rename(2), so readers see all
old files or all new ones. After a crash the next write completes the state.

For fsGroup, files get the group, the set-group-ID bit and rights (volume.SetVolumeOwnership). Every file is opened
without following links, and then changed by its descriptor. So a container that exchanges names meanwhile gives away no
file of the node.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from harness.files import naming, read_regular

_DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"
_LARGEST: Final = 1 << 20  # bytes of a config map at most (MaxSecretSize of Kubernetes' API)

READ_MASK: Final = 0o440
"""The rights that owner and group get to each file of a read-only volume."""
_WRITE_MASK: Final = 0o660
_FOLDER_MASK: Final = stat.S_ISGID | 0o110


class Projection(NamedTuple):
    """The content and the mode of a file."""

    content: bytes
    mode: int


def write_atomically_into(folder: Path, files: Mapping[str, Projection], group: int | None = None) -> bool:
    """Have `folder` hold exactly `files`, by relative path; return False if it does already.

    The files are the `group`'s, too, which may read them, before they are visible. Raises OSError.
    """
    data = folder / _DATA
    if group is not None:
        files = {name: file._replace(mode=file.mode | READ_MASK) for name, file in files.items()}
    if _current(data) == dict(files):
        _link_names(folder, files)
        return False
    before = data.readlink() if data.is_symlink() else None
    new = folder / f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S}.{secrets.randbelow(10**9)}"
    new.mkdir(mode=0o755)
    for name, file in files.items():
        path = new / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with naming(path):
            path.write_bytes(file.content)
        path.chmod(file.mode)
    if group is not None:
        own_by_group(folder, group, readonly=True)
    (folder / _NEW_DATA).unlink(missing_ok=True)
    (folder / _NEW_DATA).symlink_to(new.name)
    (folder / _NEW_DATA).rename(data)
    _link_names(folder, files)
    _remove_others(folder, files, keep=new.name)
    return before is not None or bool(files)


def _current(data: Path) -> dict[str, Projection] | None:
    """Return the files that are visible now; None if they were never written."""
    if not data.is_dir():
        return None
    found = {}
    for path in data.resolve().rglob("*"):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            try:
                content = read_regular(path, _LARGEST + 1)
            except OSError:  # not of this module, which writes no links, FIFOs and devices
                return None
            found[str(path.relative_to(data.resolve()))] = Projection(content, status.st_mode & 0o777)
    return found


def _link_names(folder: Path, files: Mapping[str, Projection]) -> None:
    for name in {Path(path).parts[0] for path in files}:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(Path(_DATA) / name)


def _remove_others(folder: Path, files: Mapping[str, Projection], *, keep: str) -> None:
    """Remove links to files that are gone, and folders of earlier writes."""
    names = {Path(path).parts[0] for path in files}
    for entry in os.scandir(folder):
        if entry.name in {_DATA, keep} or entry.name in names:
            continue
        if entry.is_symlink():
            with suppress(FileNotFoundError):
                Path(entry.path).unlink()
        elif entry.name.startswith("..") and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)


def own_by_group(volume: Path, group: int, *, readonly: bool = False) -> None:
    """Give a volume and its files to a group; new files get it, too. Other file systems below stay. Raises OSError."""
    mask = READ_MASK if readonly else _WRITE_MASK
    folder = os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _own(folder, group, mask, os.fstat(folder).st_dev)
    finally:
        os.close(folder)


def _own(opened: int, group: int, mask: int, device: int) -> None:
    status = os.fstat(opened)
    if status.st_dev != device:
        return
    path = f"/proc/self/fd/{opened}"  # of a link, too, it leads to the opened file and no further
    os.chown(path, -1, group)
    if stat.S_ISLNK(status.st_mode):
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    os.chmod(path, stat.S_IMODE(status.st_mode) | mask | (_FOLDER_MASK if is_folder else 0))  # noqa: PTH101 -- a descriptor
    if not is_folder:
        return
    for name in os.listdir(path):  # noqa: PTH208 -- a descriptor
        try:
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        except FileNotFoundError:
            continue
        try:
            _own(entry, group, mask, device)
        finally:
            os.close(entry)
