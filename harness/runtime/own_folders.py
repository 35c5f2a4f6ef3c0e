"""Folders of a node's own in place of the machine's, for plugins that keep files outside of /var/lib/cni.

/run and /var/log are as on a new machine: empty, but for the entries of /run that programs of the machine serve. /tmp
and /data may hold anything, such as the plugins themselves: their entries stay visible, new ones are the node's own.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["LOGS", "OwnFolders", "own_folders"]

LOGS: Final = Path("/var/log")
_HELD: Final = (Path("/data"), Path("/tmp"))  # noqa: S108 -- the machine's, by its name
_FOLDERS: Final = (*_HELD, Path("/run"), LOGS)
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""A blank in the name of a mount point, for example (proc_pid_mountinfo(5))."""


class OwnFolders(NamedTuple):
    """`sources` has the node's folder for each of the machine's; `kept` are the machine's entries that stay visible."""

    sources: Mapping[Path, Path]
    kept: tuple[Path, ...] = ()

    def holds(self, path: Path) -> bool:
        """Tell whether a path of the machine is the node's own on the node."""
        return any(path.is_relative_to(each) for each in self.sources) and not any(
            path.is_relative_to(each) for each in self.kept
        )


def own_folders(below: Path) -> OwnFolders:
    """Make the folders of a node below this one, with places for the machine's entries that stay visible.

    A folder that this machine lacks is made, empty: a mount needs a place. Raises OSError.
    """
    mounts = list(_mount_points())
    sources: dict[Path, Path] = {}
    kept: list[Path] = []
    for folder in _FOLDERS:
        with suppress(OSError):  # a read-only file system: then no plugin makes the folder either
            folder.mkdir(exist_ok=True)
        if not folder.is_dir() or folder.is_symlink() or not os.access(folder, os.R_OK | os.X_OK):
            continue
        source = below / str(folder).strip("/").replace("/", "-")
        _make_like(folder, source)
        sources[folder] = source
        for entry in folder.iterdir():
            stays = folder in _HELD or below.is_relative_to(entry) or _is_served(entry, mounts)
            with suppress(FileNotFoundError):  # it has gone meanwhile
                if _stand_in(entry, source / entry.name, stays=stays):
                    kept.append(entry)
    return OwnFolders(sources, tuple(kept))


def _stand_in(entry: Path, place: Path, *, stays: bool) -> bool:
    """Make the place of an entry; return whether it is to be mounted there. Links and empty folders are no mounts."""
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        place.symlink_to(entry.readlink())
        return False
    if stat.S_ISDIR(mode):
        _make_like(entry, place)
    elif stays:
        place.touch()
    return stays


def _make_like(folder: Path, place: Path) -> None:
    found = folder.stat()
    place.mkdir(parents=True)
    try:
        os.chown(place, found.st_uid, found.st_gid)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a user namespace lacks the owner: it stays this user's
            raise
    place.chmod(stat.S_IMODE(found.st_mode))


def _is_served(entry: Path, mounts: list[Path]) -> bool:
    """Tell whether there are mounts or sockets in it: another program has made them for others."""
    return any(each.is_relative_to(entry) for each in mounts) or any(map(_is_socket, _all_below(entry)))


def _all_below(entry: Path) -> Iterator[Path]:
    yield entry
    for folder, _, names in os.walk(entry):
        for name in names:
            yield Path(folder, name)


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False


def _mount_points() -> Iterator[Path]:
    for line in Path("/proc/thread-self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        yield Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split()[4]))
