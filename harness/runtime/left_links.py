"""The node's interfaces that pods' networks made and that outlived the pods: bridges, which `del --prune` removes."""

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["LeftLinks", "existing_links"]


def existing_links(names: Iterable[str]) -> list[str]:
    """Return those of `names` that are interfaces in the calling thread's network namespace."""
    found = []
    for name in names:
        with suppress(OSError, ValueError):
            socket.if_nametoindex(name)
            found.append(name)
    return found


class LeftLinks:
    """A folder with a file for each interface, named after it; its lines are the gateways that pods had on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, name: str, gateways: Iterable[str]) -> None:
        """Keep an interface and further gateways in mind. Raises OSError."""
        path = self._folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        # One write each, at the end of the file: pods are deleted at the same time.
        with path.open("a") as file:
            file.writelines(f"{gateway}\n" for gateway in gateways if gateway not in _lines(path))

    def all(self) -> Mapping[str, frozenset[str]]:
        """Return the gateways of every interface, by its name. Raises OSError."""
        return {path.name: _lines(path) for path in sorted(self._folder.glob("*"))}

    def forget(self, name: str) -> None:
        """Keep an interface in mind no more. Raises OSError."""
        (self._folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # there are others
            self._folder.rmdir()


def _lines(path: Path) -> frozenset[str]:
    return frozenset(path.read_text().split())
