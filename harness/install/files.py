"""Writing files into the folders of runtimes, and removing exactly these files.

`<state-dir>/install.json` has an entry for each file, written before the file itself. So a crash at any moment leaves
no file that `uninstall` does not know.
"""

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harness.files import locked, write_atomically
from harness.install.packages import divert, diverted_to, owners, undivert
from launch.installation import plugin_names
from launch.launcher import is_ours, launcher_bytes
from skel.decoders import boolean, list_of, record, string
from skel.errors import CniError
from skel.record import Record, field


class InstallError(Exception):
    """Nothing was installed; the message says why."""


class Content(NamedTuple):
    """The content of a file, and its permissions."""

    text: bytes
    mode: int

    @property
    def sha256(self) -> str:
        """The digest in hex."""
        return hashlib.sha256(self.text).hexdigest()


class Uninstalled(NamedTuple):
    """The result of `uninstall` for each file."""

    removed: list[Path]
    restored: list[Path]
    """Original files that `install` had replaced, now back in their place."""
    changed: list[Path]
    """Files that were changed after `install`, and were left alone."""


class _Placed(Record):
    path: str = field(string)
    sha256: str = field(string, "sha256")
    saved: str = field(string, default="")
    """The path of the original file, which was replaced."""
    diverted: bool = field(boolean, default=False)
    """Whether dpkg writes the package's file to `saved`."""


class _Manifest(Record):
    files: list[_Placed] = field(list_of(record(_Placed)), default=list)
    folders: list[str] = field(list_of(string), default=list)


def launchers(folder: Path) -> dict[Path, Content]:
    """Return the executables for `folder`: ours, and other distributions'. Raises InstallError."""
    try:
        text = launcher_bytes()
        return {folder / name: Content(text, 0o755) for name in plugin_names()}
    except ValueError as error:
        raise InstallError(str(error)) from error


def write_launchers(folder: Path) -> None:
    """Make `folder` a CNI_PATH of all plugins; existing files stay. Raises InstallError, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in launchers(folder).items():
        if not _is_there(path, content):
            write_atomically(path, content.text, mode=content.mode)


def install(
    files: Mapping[Path, Content], state_dir: Path, *, force: bool = False, diverting: bool = False
) -> list[Path]:
    """Write files, each by rename, so that no reader sees half of one; return the files that did not exist before.

    A file that is neither from an earlier `install` nor a launcher of this installation is foreign. Foreign files make
    `install` fail before anything is written; with `force`, it keeps the originals aside for `uninstall`. With
    `diverting`, a Debian package's file is kept aside too, and dpkg puts its next version there. An existing file with
    the right content is skipped, and `uninstall` leaves it. Raises InstallError, OSError.
    """
    _refuse_unwritable("install", [state_dir, *(path.parent for path in files)])
    with locked(state_dir / "install.lock"):
        manifest = _read_manifest(state_dir)
        placed = {entry.path: entry for entry in manifest.files}
        foreign = {path for path, new in files.items() if _is_foreign(path, new, placed.get(str(path)))}
        packages = owners(path for path in (files if diverting else foreign) if path.exists())
        already = {Path(entry.path) for entry in manifest.files if entry.diverted}
        diverted = packages.keys() - already if diverting else set()
        _refuse({path: packages.get(path, "") for path in files if path in foreign - diverted and not force})
        written = []
        for path, new in files.items():
            earlier = placed.get(str(path))
            if earlier is None and _is_there(path, new):
                continue
            _make_folder(path.parent, manifest)
            entry = _Placed(path=str(path), sha256=new.sha256)
            if earlier is not None:
                entry.saved, entry.diverted = earlier.saved, earlier.diverted
            if path in diverted:
                entry.saved, entry.diverted = str(_aside(path, "diverted")), True
            elif path in foreign and not entry.diverted:  # otherwise the file aside is the package's
                entry.saved = str(_aside(path, "saved"))
            manifest.files = [known for known in manifest.files if known.path != entry.path] + [entry]
            _write_manifest(manifest, state_dir)
            if path in foreign or path in diverted:
                _keep_aside(entry, earlier, is_foreign=path in foreign)
            if not _is_there(path, new):
                write_atomically(path, new.text, mode=new.mode, watched=not new.mode & 0o111)
                written.append(path)
        return written


def _refuse_unwritable(verb: str, folders: Iterable[Path]) -> None:
    """Raise InstallError if a folder cannot be written, or not be made: half an installation would be left."""
    denied = []
    for folder in dict.fromkeys(folders):
        there = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK, effective_ids=True))
        if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
            denied.append(str(folder))
    if not denied:
        return
    if os.geteuid() == 0:
        raise InstallError(f"nothing was changed: {', '.join(denied)} cannot be written (a read-only file system?)")
    raise InstallError(
        f"nothing was changed: `cni-harness {verb}` needs root (sudo) to write into {', '.join(denied)}; "
        "--bin-dir, --conf-dir and --state-dir name other folders"
    )


def _refuse(foreign: Mapping[Path, str]) -> None:
    if not foreign:
        return
    whose = {path: f" (of the package {package})" if package else "" for path, package in foreign.items()}
    names = ", ".join(f"{path}{suffix}" for path, suffix in whose.items())
    ways = "--force replaces them until `uninstall`"
    if any(foreign.values()):
        ways += "; --divert does so too, and has dpkg put a new version of the package's files aside"
    raise InstallError(f"another's, and kept: {names} ({ways})")


def installed(state_dir: Path, places: Collection[Path] = ()) -> list[Path]:
    """Return the files that `install` has written and `uninstall` would remove. Raises InstallError, OSError."""
    return [Path(entry.path) for entry in _read_manifest(state_dir).files if _is_in(entry, places)]


def uninstall(state_dir: Path, places: Collection[Path] = ()) -> Uninstalled:
    """Remove the files of `install`, all or only those at or in `places`; a file that was changed since stays.

    Raises InstallError, OSError.
    """
    done = Uninstalled([], [], [])
    manifest_file, lock = state_dir / "install.json", state_dir / "install.lock"
    if not manifest_file.exists() and not lock.exists():
        return done
    placed = [Path(entry.path).parent for entry in _read_manifest(state_dir).files if _is_in(entry, places)]
    _refuse_unwritable("uninstall", [state_dir, *(folder for folder in placed if folder.exists())])
    with locked(lock):
        manifest = _read_manifest(state_dir)
        for entry in [entry for entry in manifest.files if _is_in(entry, places)]:
            _take_back(entry, done)
            manifest.files.remove(entry)
            _write_manifest(manifest, state_dir)
        _remove_folders(manifest)
        if manifest.files:
            _write_manifest(manifest, state_dir)
        else:
            manifest_file.unlink(missing_ok=True)
            lock.unlink()
    return done


def _is_in(entry: _Placed, places: Collection[Path]) -> bool:
    path = Path(entry.path)
    return not places or path in places or path.parent in places


def _remove_folders(manifest: _Manifest) -> None:
    """Remove the folders that `install` made, if none of its files remain in them."""
    in_use = {str(parent) for entry in manifest.files for parent in Path(entry.path).parents}
    unused = [folder for folder in manifest.folders if folder not in in_use]
    manifest.folders = [folder for folder in manifest.folders if folder in in_use]
    for folder in reversed(unused):
        with suppress(OSError):  # the folder holds a foreign file, or is gone
            Path(folder).rmdir()


def _is_there(path: Path, new: Content) -> bool:
    return _digest(path) == new.sha256 and stat.S_IMODE(path.stat().st_mode) == new.mode


def _is_foreign(path: Path, new: Content, earlier: _Placed | None) -> bool:
    there = _digest(path)
    if there is None or _is_there(path, new) or (earlier is not None and there == earlier.sha256):
        return False
    return not is_ours(str(path))


def _aside(path: Path, how: str) -> Path:
    """Return the name under which the file at `path` is kept; runtimes ignore hidden files."""
    return path.with_name(f".{path.name}.cni-harness-{how}")


def _keep_aside(entry: _Placed, earlier: _Placed | None, *, is_foreign: bool) -> None:
    """Give the original file its second name; the first stays in use until the new file replaces it."""
    path, saved = Path(entry.path), Path(entry.saved)
    if entry.diverted and os.path.lexists(saved) and diverted_to(path) == saved:
        return  # an earlier installation has diverted it: dpkg writes there already
    if is_foreign:
        with suppress(FileNotFoundError):
            saved.unlink()
        os.link(path, saved, follow_symlinks=False)
    elif earlier is not None and earlier.saved and earlier.saved != entry.saved:
        Path(earlier.saved).replace(saved)
    if entry.diverted:
        divert(path, saved)


def _take_back(entry: _Placed, done: Uninstalled) -> None:
    path, saved = Path(entry.path), Path(entry.saved) if entry.saved else None
    there = _digest(path)
    if there not in {None, entry.sha256}:
        if saved is not None and _digest(saved) == there:
            saved.unlink()
        done.changed.append(path)
    elif saved is not None and os.path.lexists(saved):
        saved.replace(path)
        done.restored.append(path)
    elif there is not None:
        path.unlink()
        done.removed.append(path)
    if entry.diverted and saved is not None:
        undivert(path, saved)


def _digest(path: Path) -> str | None:
    """Return the digest of a regular file, None if it is missing. Raises InstallError for anything else."""
    try:
        # Not open() first: opening a FIFO would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InstallError(f"{path} is not a file")
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _make_folder(folder: Path, manifest: _Manifest) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        manifest.folders.append(str(parent))


def _read_manifest(state_dir: Path) -> _Manifest:
    path = state_dir / "install.json"
    try:
        return _Manifest.decode(json.loads(path.read_bytes()), str(path))
    except FileNotFoundError:
        return _Manifest()
    except (ValueError, CniError) as error:
        raise InstallError(f"{path}: not a record of what was installed: {error}") from error


def _write_manifest(manifest: _Manifest, state_dir: Path) -> None:
    write_atomically(state_dir / "install.json", json.dumps(manifest.encode(), indent=1).encode() + b"\n")
