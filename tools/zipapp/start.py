"""The first module of cni-harness.pyz: it unpacks the archive once, and runs the program from there.

Plugins and other processes are started from the unpacked files, which a zip archive cannot offer. They are in
`$XDG_CACHE_HOME/cni-harness`, or `~/.cache/cni-harness`, in a folder named after their content. If that cannot be
written, they are in a temporary folder, which the end of the program removes.

Older versions of Python must be able to read this file: it tells them which version is needed.
"""

import os
import shutil
import stat
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

ARCHIVE = Path(__file__).absolute().parent
"""Python's path of this module is a path below the archive."""
CONTENT = "site/"
DIGEST = "digest"
NEEDED = (3, 11)
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the program's command line, which ends the process with its exit code."""
    if sys.version_info < NEEDED:
        wanted = ".".join(map(str, NEEDED))
        sys.exit(f"{ARCHIVE} needs Python {wanted} or newer; this is {sys.version.split()[0]}")
    with zipfile.ZipFile(str(ARCHIVE)) as archive:
        folder = cached(archive)
        is_temporary = not is_own(folder)
        if is_temporary:
            folder = Path(tempfile.mkdtemp(prefix="cni-harness-"))
            unpack(archive, folder)
    try:
        sys.path[:] = [str(folder / CONTENT), *(path for path in sys.path if path != str(ARCHIVE))]
        from harness.cli.command_line import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during imports: `run` handles it, and a temporary folder must not stay
        code = INTERRUPTED
    finally:
        if is_temporary:
            shutil.rmtree(str(folder), ignore_errors=True)
    sys.exit(code)


def cached(archive: zipfile.ZipFile) -> Path:
    """Return the folder for the unpacked archive; it is made if it is missing and can be made."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.path.expanduser(caches), "cni-harness", archive.read(DIGEST).decode())  # noqa: PTH111 -- Path's raises without a home
    with suppress(OSError):
        if not folder.is_dir():
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix="new-", dir=str(folder.parent)))
            try:
                unpack(archive, made)
                made.rename(folder)
            finally:
                shutil.rmtree(str(made), ignore_errors=True)  # renamed, unless another process was faster
    return folder


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the content of the archive into a folder. Raises OSError."""
    archive.extractall(str(folder), [name for name in archive.namelist() if name.startswith(CONTENT)])


def is_own(folder: Path) -> bool:
    """Tell whether this is a folder of this user's that no other user may write: code is executed from it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & others


if __name__ == "__main__":
    main()
