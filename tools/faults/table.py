"""The table of faults, faults.yaml, and the lines of the product that it names by their text.

A line is found by its text, without a path, so an entry holds when a module is renamed or joined with another one.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
TABLE: Final = Path(__file__).with_name("faults.yaml")
NEAR: Final = 12
"""The key `near` names a line at most so many lines before the broken one."""
_KEYS: Final = {"fault", "line", "broken", "test"}
_OPTIONAL: Final = {"near", "draw"}


class FaultError(Exception):
    """An entry of the table cannot be used; the message names its number."""


class Fault(NamedTuple):
    """A broken line of the product."""

    number: int
    """The place in the table, from 1."""
    fault: str
    """The effect of the broken line, in a few words."""
    line: str
    """The line as it is, without its indentation."""
    broken: str
    """The line that replaces it, also without indentation."""
    test: str
    """The node ID of the test that fails with the broken line."""
    near: str = ""
    """The text of a line shortly before it, if the product has `line` more than once."""
    draw: int = 0
    """The number of the draw that gave the line; 0 for a line chosen by hand."""


class Place(NamedTuple):
    """A line of a file."""

    path: str
    """Relative to the checkout."""
    row: int
    """From 0."""

    @property
    def room(self) -> str:
        """The room; of harness, the package in it as well."""
        folders = self.path.split("/")[:-1]
        return "/".join(folders[: 2 if folders[:1] == ["harness"] else 1]) or self.path


def read_table(text: str) -> tuple[list[Fault], dict[int, str]]:
    """Return the faults, and for each number of the draw that gave none the reason. Raises FaultError."""
    document = yaml.safe_load(text)
    faults = [_fault(number, entry) for number, entry in enumerate(document["faults"], 1)]
    skipped: dict[int, str] = document["skipped"]
    drawn = [*skipped, *(each.draw for each in faults if each.draw)]
    if twice := {str(number) for number in drawn if drawn.count(number) > 1}:
        raise FaultError(f"number of the draw in two entries: {', '.join(sorted(twice))}")
    return faults, skipped


def _fault(number: int, entry: Mapping[str, Any]) -> Fault:
    if missing := _KEYS - entry.keys():
        raise FaultError(f"fault {number}: no {', '.join(sorted(missing))}")
    if unknown := entry.keys() - _KEYS - _OPTIONAL:
        raise FaultError(f"fault {number}: unknown {', '.join(sorted(unknown))}")
    fault = Fault(number, **entry)
    if fault.line == fault.broken:
        raise FaultError(f"fault {number}: the broken line is the line itself")
    return fault


def product_paths(root: Path = ROOT) -> list[str]:
    """Return the Python and C files of all rooms, relative to `root`, without generated ones."""
    rooms = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    files = (file for room in rooms for file in (root / room).rglob("*.[pch]*"))
    paths = (file.relative_to(root).as_posix() for file in files if file.suffix in {".py", ".c", ".h"})
    return sorted(path for path in paths if "_pb2" not in path)


def product(root: Path = ROOT) -> dict[str, str]:
    """Return the text of these files by path."""
    return {path: (root / path).read_text() for path in product_paths(root)}


def find(fault: Fault, sources: Mapping[str, str]) -> Place:
    """Return the place of a fault's line. Raises FaultError unless there is exactly one."""
    places = list(_places(fault, sources))
    if len(places) != 1:
        where = "".join(f"\n  {place.path}:{place.row + 1}" for place in places)
        near = f" near {fault.near!r}" if fault.near else ""
        raise FaultError(f"fault {fault.number}: the product has {len(places)} lines {fault.line!r}{near}{where}")
    return places[0]


def _places(fault: Fault, sources: Mapping[str, str]) -> Iterator[Place]:
    for path, text in sources.items():
        if fault.line in text:
            lines = [line.strip() for line in text.splitlines()]
            for index, line in enumerate(lines):
                if line == fault.line and (not fault.near or fault.near in lines[max(index - NEAR, 0) : index]):
                    yield Place(path, index)


def broken_text(fault: Fault, place: Place, text: str) -> str:
    """Return the file's text with the broken line. Raises FaultError if it is no Python any more."""
    lines = text.splitlines(keepends=True)
    lines[place.row] = lines[place.row].replace(fault.line, fault.broken)
    broken = "".join(lines)
    if place.path.endswith(".py"):
        try:
            ast.parse(broken)
        except SyntaxError as error:
            raise FaultError(f"fault {fault.number}: {place.path}: {error}") from error
    return broken
