"""The volumes that an image declares (`VOLUME` of a Dockerfile): a folder of the container's own for each.

As with containerd (container_create.go, volumeMounts), a volume begins with the image's files of that path, and ends
with the container. A mount of the request takes its place.
"""

import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from harness.cri.builtin.image_files import run_tool
from harness.cri.builtin.images import ImageConfig
from harness.cri.messages import Mount
from lean.syscalls import RESOLVE_IN_ROOT, open_within

_CP = "/bin/cp"  # of coreutils, which is essential in Debian


def image_volumes(image: ImageConfig, root: Path, folder: Path, requested: Iterable[Mount]) -> list[Mount]:
    """Make the volumes of an image, whose files are those of `root`, in `folder`, and return their mounts.

    Raises OSError, RuntimeServiceError.
    """
    taken = {_clean(mount.container_path) for mount in requested}
    wanted = sorted({_clean(path) for path in image.volumes} - taken - {"/"})
    return [
        Mount(container_path=path, host_path=str(_made(root, path, folder / str(number))))
        for number, path in enumerate(wanted)
    ]


def _clean(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _made(root: Path, path: str, volume: Path) -> Path:
    volume.mkdir(mode=0o755, parents=True, exist_ok=True)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        source = open_within(top, path, os.O_RDONLY | os.O_DIRECTORY, RESOLVE_IN_ROOT)
    except FileNotFoundError:
        return volume
    finally:
        os.close(top)
    try:
        # A link of the image is not followed: `cp` gets the opened folder, with owners, modes and attributes.
        run_tool(_CP, "--archive", "--no-target-directory", f"/proc/{os.getpid()}/fd/{source}/.", str(volume))
    finally:
        os.close(source)
    return volume
