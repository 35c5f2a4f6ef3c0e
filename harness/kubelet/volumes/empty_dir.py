"""emptyDir volumes: folders of the node, or file systems in memory (Kubernetes' pkg/volume/emptydir).

A volume is set up once, before the first container: later a container could have put anything into it. A file `ready`
outside of the volume says that it is set up, as with kubelet.
"""

import errno
import os
from pathlib import Path
from typing import Final

from harness.kubelet.v1 import V1EmptyDirVolume
from harness.kubelet.volumes.ownership import own_by_group
from harness.quantity import quantity_value
from lean import syscalls

_MEMORY: Final = "Memory"


def set_up_empty_dir(
    folder: Path, volume: V1EmptyDirVolume, ready: Path, *, group: int | None, is_private: bool
) -> None:
    """Make a volume unless it is made: for all users, or with fsGroup for its `group`, too. Raises OSError.

    `ready` is a file for the note that it is made. With `is_private`, no mount below a volume in memory is passed on.
    """
    is_there = os.path.ismount(folder) if volume.medium == _MEMORY else folder.is_dir()
    if is_there and ready.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    if volume.medium == _MEMORY and not is_there:
        _mount_memory(folder, volume.size_limit)
        if is_private:
            syscalls.mount("", str(folder), syscalls.MS_PRIVATE)
    if group is not None:
        own_by_group(folder, group)
    ready.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    ready.touch(0o640)


def _mount_memory(folder: Path, limit: str) -> None:
    """Mount a tmpfs, of mode 1777, whose pages are never written to swap space, if the kernel can promise that."""
    size = [f"size={quantity_value(limit)}"] if limit else []
    try:
        syscalls.mount("tmpfs", str(folder), 0, "tmpfs", ",".join([*size, "noswap"]))
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: before Linux 6.3, or in a user namespace
            raise
        syscalls.mount("tmpfs", str(folder), 0, "tmpfs", ",".join(size))
