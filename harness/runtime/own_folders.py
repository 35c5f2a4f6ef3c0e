"""Folders of a node's own in place of the machine's, for plugins that keep files outside of /var/lib/cni.

/run and /var/log are as on a new machine: empty, but for the entries of /run that programs of the machine serve. /tmp
and /data may hold anything, such as the plugins themselves: their entries stay visible, new ones are the node's own.
/etc, /var, /root, /usr/local and /opt are the machine's, and changes in them stay in memory. The rest is read-only.
"""

import errno
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from netlink.own_namespaces import mount_points

LOGS: Final = Path("/var/log")
_HELD: Final = (Path("/data"), Path("/tmp"))  # noqa: S108 -- the machine's, by its name
_FOLDERS: Final = (*_HELD, Path("/run"), LOGS)
_EMPTY: Final = "empty"
"""The place of all entries that are no folders, by hard links: a link takes a tenth of the time of a new file."""
_LAYERED: Final = tuple(map(Path, ("/etc", "/var", "/root", "/usr/local", "/opt")))
_KERNELS: Final = ("/proc", "/sys", "/dev")


class OwnFolders(NamedTuple):
    """`sources` has the node's folder for each of the machine's; `kept` are the machine's entries that stay visible.

    `places` are the paths in the node's folders over which the `kept` are mounted: they are empty, and of no interest.
    `layered` are the folders whose changes stay in `memory`, the path of an empty folder; `below_layers` are mounts in
    them that stay visible. `state` is the folder of all nodes, which stays writable. `layers` has the folder of the
    changes for each of the layered ones, as soon as the node has its mounts.
    """

    sources: Mapping[Path, Path]
    kept: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()
    layered: tuple[str, ...] = ()
    below_layers: tuple[str, ...] = ()
    memory: str = ""
    state: str = ""
    layers: Mapping[Path, Path] = MappingProxyType({})

    def holds(self, path: Path) -> bool:
        """Tell whether a path of the machine is the node's own on the node."""
        own, machines = {*map(str, self.sources), *map(str, self.layers)}, {*self.kept, *self.below_layers, self.state}
        return _is_below(str(path), own) and not _is_below(str(path), machines)

    def writable(self) -> Callable[[str], bool]:
        """Return a function that tells whether a mount of the node is to be writable: all others are the machine's."""
        layers = set(map(str, self.layers))
        below = {*_KERNELS, *map(str, self.sources), *self.kept, self.memory, self.state}
        return lambda mount_point: mount_point in layers or _is_below(mount_point, below)


def _is_below(path: str, folders: Container[str]) -> bool:
    """Tell whether an absolute path is one of the folders, or below one."""
    while path not in folders:
        path, slash, _ = path.rpartition("/")
        if not slash:
            return False
    return True


def own_folders(below: Path, state: Path, more: Iterable[Path] = ()) -> OwnFolders:
    """Make the folders of a node below this one, with places for the machine's entries that stay visible.

    `state` is the folder of all nodes. Changes in the folders `more` stay in memory, too. A folder that this machine
    lacks is made, empty: a mount needs a place. Raises OSError.
    """
    # /tmp may have hundreds of entries, and each node has its own folders: text, since Path takes ten times as long.
    mounts = set(mount_points())
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
    (memory := below / "memory").mkdir(exist_ok=True)
    own = set(map(str, sources))
    # A file system of its own directly below, such as that of /var/lib, has an overlay of its own.
    mounted = [Path(mount) for mount in mounts if Path(mount).parent in _LAYERED]
    layered = {str(each) for each in (*_LAYERED, *mounted, *more) if each.is_dir() and not _is_below(str(each), own)}
    in_layers = (mount for mount in mounts - layered if _is_below(mount, layered) and not _is_below(mount, own))
    return OwnFolders(
        sources,
        tuple(kept),
        frozenset(kept.values()),
        layered=tuple(sorted(layered)),
        below_layers=tuple(sorted(in_layers)),
        memory=str(memory),
        state=str(state),
    )


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
