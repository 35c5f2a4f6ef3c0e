"""A volume for the pod's fsGroup (Kubernetes' volume.SetVolumeOwnership): group, set-group-ID bit and rights.

Every file is opened without following links, and then changed by its descriptor. So a container that exchanges names
meanwhile gives away no file of the node.
"""

import os
import stat
from pathlib import Path
from typing import Final

READ_MASK: Final = 0o440
"""The rights that owner and group get to each file of a read-only volume."""
_WRITE_MASK: Final = 0o660
_FOLDER_MASK: Final = stat.S_ISGID | 0o110


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
