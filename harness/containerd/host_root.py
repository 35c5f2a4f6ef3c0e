"""The files of a container without an image: those of the node, with a layer over them that takes all changes.

The layer is in memory and ends with the container, so nothing that a container writes, and no mount point, reaches the
node's root file system. Other file systems of the node (/run, /tmp, /home, …) appear as they are, without those of
other pods: a copy of /dev/shm of a pod that has ended would keep its memory. Volumes, /etc/hosts
and the other files of a pod are mounted on top. The steps need a mount namespace of their own, without shared mounts.
"""

import errno
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from fast_stdlib import syscalls
from harness.mounts import mount_points_below

# asm-generic/unistd.h and include/uapi/linux/mount.h; pivot_root(2) has a number of its own on each machine.
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MOVE_MOUNT_T_SYMLINKS: Final = 0x10
_SAFE: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_CONTROL_GROUPS: Final = "/sys/fs/cgroup"


def enter_host_root(folder: str, mounts: list[dict[str, Any]], *, readonly: bool) -> None:
    """Make the node's files, with `mounts` over them, the root of this process; it must have one thread.

    `folder` is the container's, `containers/<id>` below the runtime's. A mount has the fields of
    harness.cri.messages.Mount. Raises OSError.
    """
    for mount in mounts:
        mount["copy"] = _copy_mount(mount["host_path"])
    groups = _copy_mount(_CONTROL_GROUPS) if os.path.isdir(_CONTROL_GROUPS) else -1
    layers = f"{folder}/upper"
    syscalls.mount("tmpfs", layers, syscalls.MS_NOSUID | syscalls.MS_NODEV, "tmpfs", "mode=755")
    cover = _Layers(layers, hidden=os.path.dirname(os.path.dirname(folder)))
    root = f"{folder}/bundle/rootfs"
    cover.mount("/", root)
    old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _pivot(root)
    syscalls.mount("proc", "/proc", _SAFE, "proc")
    _mount_sysfs(groups)
    for mount in mounts:
        _mount(mount, cover)
    os.fchdir(old)
    syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")
    if readonly:
        syscalls.mount_read_only("/")


class _Layers:
    """Overlays whose changes go into folders of one tmpfs, without the mounts below the folder `hidden`."""

    def __init__(self, path: str, *, hidden: str) -> None:
        self._hidden = f"{hidden}/"
        folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folder = f"/proc/self/fd/{folder}"  # the path leads nowhere once the root is another
        self._count = 0

    def mount(self, lower: str, target: str) -> None:
        """Mount the files of `lower` with a new layer on `target`, and the mounts below `lower` again below it."""
        below = mount_points_below(lower)
        # A copy of a mount has those below it.
        topmost = (path for path in below if not any(path.startswith(f"{other}/") for other in below))
        submounts = copies_of(path for path in topmost if not path.startswith(self._hidden))
        own = f"{self._folder}/{self._count}"
        self._count += 1
        os.makedirs(f"{own}/upper")
        os.makedirs(f"{own}/work")
        status = os.stat(lower)
        os.chown(f"{own}/upper", status.st_uid, status.st_gid)
        os.chmod(f"{own}/upper", status.st_mode & 0o7777)
        os.chdir(lower)  # in the options of mount, a comma or a colon of the path would mean something else
        syscalls.mount("overlay", target, 0, "overlay", f"lowerdir=.,upperdir={own}/upper,workdir={own}/work")
        os.chdir("/")
        for path, copy in submounts:
            with suppress(FileNotFoundError):  # another mount hides it
                _attach_mount(copy, target.rstrip("/") + path[len(lower.rstrip("/")) :])

    def make_target(self, path: str, *, is_folder: bool) -> None:
        """Make a mount point; on another file system than the root's, in a new layer over the folder around it."""
        if os.path.exists(path):
            return
        around = os.path.dirname(path)
        while not os.path.exists(around):
            around = os.path.dirname(around)
        if os.stat(around).st_dev != os.stat("/").st_dev:
            self.mount(around, around)
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            with suppress(FileExistsError):  # another container of the pod has made it: a FIFO would block
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def copies_of(paths: Iterable[str]) -> list[tuple[str, int]]:
    """Copy the mounts at these paths; one whose mount point vanishes meanwhile is left out.

    rmdir(2) of a mount point, as at the end of another pod, takes its mounts out of all other mount namespaces.
    """
    copies = []
    for path in paths:
        with suppress(FileNotFoundError):
            copies.append((path, _copy_mount(path)))
    return copies


def _pivot(root: str) -> None:
    """Make the mount at `root` this process's root. The old root stays mounted, without a path."""
    os.chdir(root)
    try:
        syscalls.call(_PIVOT_ROOT[platform.machine()], b".", b".")
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: the machine's root is its initramfs
            raise
        syscalls.mount(".", "/", syscalls.MS_MOVE)
        os.chroot(".")
    os.chdir("/")


def _mount_sysfs(groups: int) -> None:
    """Show the pod's network devices in /sys: those of the namespace that mounts it. Some machines forbid it."""
    with suppress(OSError):
        syscalls.mount("sysfs", "/sys", _SAFE | syscalls.MS_RDONLY, "sysfs")
        if groups >= 0:
            _attach_mount(groups, _CONTROL_GROUPS)


def _mount(mount: dict[str, Any], cover: _Layers) -> None:
    target = os.path.realpath(mount["container_path"])
    cover.make_target(target, is_folder=os.path.isdir(f"/proc/self/fd/{mount['copy']}"))
    _attach_mount(mount["copy"], target)
    if mount["propagation"] == "private":
        syscalls.mount("", target, syscalls.MS_PRIVATE | syscalls.MS_REC)
    if mount["readonly"]:
        syscalls.mount_read_only(target, recursive=mount["recursive_read_only"])


def _copy_mount(path: str) -> int:
    """Copy the mount at `path`, with the mounts below it; return a descriptor for `_attach_mount` (Linux 5.2)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | syscalls.AT_RECURSIVE
    return syscalls.call(_OPEN_TREE, syscalls.AT_FDCWD, os.fsencode(path), flags, path=path)


def _attach_mount(copy: int, target: str) -> None:
    """Mount a copy at `target`, once, and close its descriptor."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_SYMLINKS
    try:
        syscalls.call(_MOVE_MOUNT, copy, b"", syscalls.AT_FDCWD, os.fsencode(target), flags, path=target)
    finally:
        os.close(copy)
