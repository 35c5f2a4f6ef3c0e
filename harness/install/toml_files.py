"""Reading TOML files as runtimes do, and the keys that matter for CNI."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR
from skel.record import rendered

_EXECUTABLES: Final = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")


class ConfigError(Exception):
    """A runtime's configuration that cannot be read; the message names the file."""


@dataclass(frozen=True)
class RuntimeCniConfig:
    """The CNI part of a runtime's configuration."""

    name: str
    files: tuple[Path, ...] = ()
    """The configuration files, in the order in which they apply; empty if the runtime uses its defaults."""
    bin_dirs: tuple[Path, ...] = (DEFAULT_BIN_DIR,)
    conf_dir: Path = DEFAULT_CONF_DIR
    network: str = ""
    """The name of the network for pods; empty for the first list by file name."""
    built_in: tuple[str, ...] = ()
    """The plugins of its built-in network, which it uses if no list has the name of `network`."""
    skips_unusable_lists: bool = False
    """Whether it continues with the next list, while other runtimes stop with an error."""
    own_types: tuple[str, ...] = ()
    """Plugins that it executes in addition to the plugins of the list."""
    setting: str = ""
    """The setting that names its folder of plugins: a format with `{folder}`."""
    unused: str = ""
    """The reason why it does not use CNI; empty if it does."""
    problem: str = ""
    """The reason why its configuration cannot be read; the other fields are then its defaults."""

    def plugin(self, type_: str) -> Path | None:
        """Return the file that it executes for a plugin's type, None if it finds none."""
        return next((path for each in self.bin_dirs if (path := each / type_).is_file()), None)

    def setting_for(self, bin_dir: Path) -> str:
        """Return the setting, with its file, that makes it look into `bin_dir`, first or alone."""
        others = [each for each in self.bin_dirs if each != bin_dir]
        listed = ", ".join(f'"{each}"' for each in (bin_dir, *others))
        return self.setting.format(folder=bin_dir, folders=listed)


class Document(NamedTuple):
    """One TOML file."""

    path: Path
    content: Mapping[str, object]


class Root:
    """The machine's files, below a folder that stands for `/`."""

    def __init__(self, top: Path) -> None:
        """Look below `top`."""
        self._top = top

    def at(self, path: Path) -> Path:
        """Return the real path of an absolute path of the machine."""
        return self._top / path.relative_to("/")

    def executable(self, name: str) -> Path | None:
        """Return a program's file, None if the usual folders have none."""
        paths = (self._top / each / name for each in _EXECUTABLES)
        return next((path for path in paths if os.access(path, os.X_OK)), None)

    def files(self, pattern: Path) -> list[Path]:
        """Return the files that match a pattern, in the order of their names."""
        found = self.at(pattern.parent).glob(pattern.name)
        return sorted(pattern.parent / path.name for path in found if path.is_file())

    def documents(self, paths: Iterable[Path]) -> list[Document]:
        """Read files, in their order; missing ones are left out. Raises ConfigError."""
        return [document for path in paths if (document := self.toml(path)) is not None]

    def toml(self, path: Path) -> Document | None:
        """Read a file, None if it is missing. Raises ConfigError."""
        try:
            return Document(path, tomllib.loads(self.at(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except ValueError as error:  # UnicodeDecodeError, TOMLDecodeError
            raise ConfigError(f"{path}: not TOML: {error}") from None


def table(document: Document, *keys: str) -> Mapping[str, object]:
    """Return a table, empty if it is missing. Raises ConfigError for another kind of value."""
    found: object = document.content
    for number, key in enumerate(keys, start=1):
        found = found.get(key, {}) if isinstance(found, dict) else found
        if not isinstance(found, dict):
            raise ConfigError(f"{document.path}: {'.'.join(keys[:number])}: expected a table, got {rendered(found)}")
    return found if isinstance(found, dict) else {}


def folder(path: Path, key: str, value: object) -> Path:
    """Read one folder's path. Raises ConfigError."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path}: {key}: expected a folder's path, got {rendered(value)}")
    return Path(value)


def strings(path: Path, key: str, value: object) -> tuple[str, ...]:
    """Read a list of text. Raises ConfigError."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{path}: {key}: expected a list of text, got {rendered(value)}")
    return tuple(value)


def folders(path: Path, key: str, value: object) -> tuple[Path, ...]:
    """Read a list of folders' paths. Raises ConfigError."""
    return tuple(Path(each) for each in strings(path, key, value))
