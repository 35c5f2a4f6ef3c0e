"""Folders of a node's own in place of the machine's, for plugins that keep files outside of /var/lib/cni.

/run and /var/log are as on a new machine: empty, but for the entries of /run that programs of the machine serve. /tmp
and /data may hold anything, such as the plugins themselves: their entries stay visible, new ones are the node's own.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["LOGS", "OwnFolders", "own_folders"]

LOGS: Final = Path("/var/log")
_HELD: Final = (Path("/data"), Path("/tmp"))  # noqa: S108 -- the machine's, by its name
_FOLDERS: Final = (*_HELD, Path("/run"), LOGS)
_EMPTY: Final = "empty"
"""The place of all entries that are no folders, by hard links: a link takes a tenth of the time of a new file."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""A blank in the name of a mount point, for example (proc_pid_mountinfo(5))."""


class OwnFolders(NamedTuple):
    """`sources` has the node's folder for each of the machine's; `kept` are the machine's entries that stay visible.

    `places` are the paths in the node's folders over which the `kept` are mounted: they are empty, and of no interest.
    """

    sources: Mapping[Path, Path]
    kept: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()

    def holds(self, path: Path) -> bool:
        """Tell whether a path of the machine is the node's own on the node."""
        return any(path.is_relative_to(each) for each in self.sources) and not any(
            path.is_relative_to(each) for each in self.kept
        )


def own_folders(below: Path) -> OwnFolders:
    """Make the folders of a node below this one, with places for the machine's entries that stay visible.

    A folder that this machine lacks is made, empty: a mount needs a place. Raises OSError.
    """
    # /tmp may have hundreds of entries, and each node has its own folders: text, since Path takes ten times as long.
    mounts = set(_mount_points())
    sources: dict[Path, Path] = {}
    kept: dict[str, str] = {}
    below.mkdir(parents=True, exist_ok=True)
    (empty := below / _EMPTY).touch()
    for folder in _FOLDERS:
        with suppress(OSError):  # a read-only file system: then no plugin makes the folder either
            folder.mkdir(exist_ok=True)
        if not folder.is_dir() or folder.is_symlink() or not os.access(folder, os.R_OK | os.X_OK):
            continue
        source = below / str(folder).strip("/").replace("/", "-")
        _make_like(folder.stat(), str(source))
        sources[folder] = source
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it has gone meanwhile
                    stays = folder in _HELD or below.is_relative_to(entry.path) or _is_served(entry, mounts)
                    if _stand_in(entry, f"{source}/{entry.name}", stays=stays, empty=str(empty)):
                        kept[entry.path] = f"{source}/{entry.name}"
    return OwnFolders(sources, tuple(kept), frozenset(kept.values()))


def _stand_in(entry: os.DirEntry[str], place: str, *, stays: bool, empty: str) -> bool:
    """Make the place of an entry; return whether it is to be mounted there. Links and empty folders are no mounts."""
    if entry.is_symlink():
        Path(place).symlink_to(Path(entry).readlink())
        return False
    if not entry.is_dir(follow_symlinks=False):
        if stays:
            _make_empty(place, empty)
    elif stays:
        os.mkdir(place)  # noqa: PTH102 -- text, see above
    else:
        _make_like(entry.stat(follow_symlinks=False), place)
    return stays


def _make_empty(place: str, empty: str) -> None:
    try:
        os.link(empty, place)
    except OSError as error:
        if error.errno not in {errno.EMLINK, errno.EPERM}:  # too many, or a file system without hard links
            raise
        Path(place).touch()


def _make_like(found: os.stat_result, place: str) -> None:
    os.mkdir(place)  # noqa: PTH102 -- text, see above
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(place, found.st_uid, found.st_gid)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a user namespace lacks the owner: it stays this user's
                raise
    os.chmod(place, stat.S_IMODE(found.st_mode))  # noqa: PTH101 -- text, see above


def _is_served(entry: os.DirEntry[str], mounts: Iterable[str]) -> bool:
    """Tell whether there are mounts or sockets in it: another program has made them for others."""
    within = f"{entry.path}/"
    if any(each == entry.path or each.startswith(within) for each in mounts):
        return True
    return _is_socket(entry) or (entry.is_dir(follow_symlinks=False) and any(map(_is_socket, _all_below(entry.path))))


def _all_below(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _all_below(entry.path)


def _is_socket(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    return False


def _mount_points() -> Iterator[str]:
    for line in Path("/proc/thread-self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        yield _ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split(" ", 5)[4])
