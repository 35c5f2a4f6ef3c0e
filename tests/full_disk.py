"""A file system without space, in a folder of a test."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(folder: Path, *, size: str = "64k") -> Iterator[Path]:
    """Mount a small file system at `folder`, and yield the file that fills it; to remove the file makes space.

    Folders and empty files can still be made: a tmpfs takes no space for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True)
    filler = folder / "filler"
    try:
        fill(filler)
        yield filler
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(filler: Path) -> None:
    """Give a file all the space that its file system has left."""
    space = os.statvfs(filler.parent)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize)
    assert os.statvfs(filler.parent).f_bavail == 0
