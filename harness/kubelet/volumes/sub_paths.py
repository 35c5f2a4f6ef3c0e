"""subPath of volume mounts: a file or folder of a volume, bound where no container can change the path to it.

Between the look at a path and its mount, a container could put a link there that leads out of the volume. So the file
is opened below the volume (openat2(2)), and bound as it was opened (kubelet: subpath_linux.go). Runtimes get the bound
path. The mounts are outside of the pods' folders, and are removed one by one: no removal of a tree can enter a volume.
As with kubelet, mounts below the file or folder are left out.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from fast_stdlib import syscalls
from harness.kubelet.status.start_errors import StartError
from harness.mounts import bind, detach


def bound_sub_path(volume: Path, sub_path: str, name: str, target: Path, propagation: str = "private") -> Path:
    """Bind a file or folder of the volume `name` at `target`, instead of an earlier one; make missing folders.

    Links inside of the volume are followed. New folders get the volume's mode. `propagation` is the CRI's. Returns
    `target`. Raises StartError, OSError.
    """
    real = volume.resolve()
    source = (real / sub_path).resolve()
    if sub_path.startswith("/") or ".." in Path(sub_path).parts or not source.is_relative_to(real):
        raise _leaves(sub_path, name)
    root = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        opened = _opened(root, source.relative_to(real))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _leaves(sub_path, name) from error
        raise
    finally:
        os.close(root)
    try:
        _make_target(target, is_folder=stat.S_ISDIR(os.fstat(opened).st_mode))
        bind(f"/proc/self/fd/{opened}", target, propagation)
    finally:
        os.close(opened)
    return target


def remove_sub_paths(folder: Path) -> None:
    """Remove the mounts of a pod, `folder/VOLUME/CONTAINER/NUMBER`, and their folders. Raises OSError."""
    for target in folder.glob("*/*/*"):
        _remove_target(target)
    for each in (*folder.glob("*/*"), *folder.glob("*"), folder):
        with suppress(FileNotFoundError):
            each.rmdir()


def _opened(root: int, path: Path) -> int:
    """Open a path below the folder `root`; folders that are missing are made."""
    mode = os.fstat(root).st_mode & 0o7777
    for folder in (*reversed(path.parents), path):
        try:
            os.close(syscalls.open_within(root, str(folder), os.O_PATH, syscalls.RESOLVE_BENEATH))
        except FileNotFoundError:
            _make_folder(root, folder, mode)
    return syscalls.open_within(root, str(path), os.O_PATH, syscalls.RESOLVE_BENEATH)


def _make_folder(root: int, path: Path, mode: int) -> None:
    around = syscalls.open_within(root, str(path.parent), os.O_PATH | os.O_DIRECTORY, syscalls.RESOLVE_BENEATH)
    try:
        os.mkdir(path.name, dir_fd=around)
    finally:
        os.close(around)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    made = syscalls.open_within(root, str(path), flags, syscalls.RESOLVE_BENEATH)
    try:
        os.fchmod(made, mode)
    finally:
        os.close(made)


def _make_target(target: Path, *, is_folder: bool) -> None:
    _remove_target(target)
    target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if is_folder:
        target.mkdir(mode=0o750)
    else:
        target.touch(0o640)


def _remove_target(target: Path) -> None:
    """Unmount whatever is bound at `target`, and remove the empty file or folder below it."""
    if not target.exists():
        return
    while detach(target):
        pass
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink()


def _leaves(sub_path: str, name: str) -> StartError:
    return StartError("CreateContainerConfigError", f'subPath "{sub_path}" leaves volume "{name}"')
