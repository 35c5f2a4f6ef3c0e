"""The content of folders: every folder, file, symbolic link and other thing."""

import os
import stat
from collections.abc import Container, Iterable
from hashlib import file_digest
from pathlib import Path
from typing import Final

from harness.snapshot.state import Things

_LONGEST_TEXT: Final = 4096

_KINDS: Final = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}


def files(folders: Iterable[Path], without: Container[str] = ()) -> Things:
    """Return the folders and everything below them, by path; nothing for a missing folder. Raises OSError.

    Symbolic links are not followed. Files that disappear meanwhile are left out, and so are the paths of `without`,
    with everything below them.
    """
    found: Things = {}
    for folder in folders:
        _describe_all(folder, found, without)
    return dict(sorted(found.items()))


def _describe_all(path: Path, found: Things, without: Container[str]) -> None:
    try:
        described = described_file(path)
        names = os.listdir(path) if described["kind"] == "folder" else []  # noqa: PTH208 -- a Path for each takes longer
    except FileNotFoundError:
        return
    found[str(path)] = described
    for name in names:
        if f"{path}/{name}" not in without:
            _describe_all(path / name, found, without)


def described_file(path: Path) -> Things:
    """Return the kind, mode and content of one file or folder, as `files` does. Raises OSError."""
    status = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "unknown")
    described: Things = {"kind": kind, "mode": f"{stat.S_IMODE(status.st_mode):04o}"}
    if (status.st_uid, status.st_gid) != (0, 0):
        described["owner"] = f"{status.st_uid}:{status.st_gid}"
    if kind == "symbolic link":
        return {"kind": kind, "target": str(path.readlink())}
    if kind == "file":
        described |= _content(path)
    return described


def _content(path: Path) -> Things:
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        size = stream.tell()
        described: Things = {"size": size, "sha256": digest}
        if size <= _LONGEST_TEXT:
            stream.seek(0)
            content = stream.read(_LONGEST_TEXT)
            try:
                text = content.decode()
            except UnicodeDecodeError:
                return described
            if "\0" not in text:
                described["text"] = text
        return described
