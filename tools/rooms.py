"""Writes the last column of the table of rooms in docs/design.md, which is made from the import contracts of lint.

`python -m tools.rooms` writes the page. A room may import each room, and each library that a contract names, unless a
contract forbids it. Of a forbidden room, the modules that a contract excepts by `ignore_imports` follow.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = _ROOT / "docs" / "design.md"
_ROW: Final = re.compile(r"^(\| `(\w+)/` \|.*\|)[^|]*\|$", re.MULTILINE)


def drawn(page: str) -> str:
    """Return the page with the present contracts. Raises ValueError if the table lacks a room."""
    lint = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms, contracts = lint["root_packages"], [each for each in lint["contracts"] if each["type"] == "forbidden"]
    if missing := set(rooms) - {row[2] for row in _ROW.finditer(page)}:
        raise ValueError(f"no row for {', '.join(sorted(missing))}")
    named = sorted(name for each in contracts for name in each["forbidden_modules"] if "." not in name)
    known = dict.fromkeys([*rooms, *named])
    return _ROW.sub(lambda row: f"{row[1]} {_imports(row[2], list(known), contracts)} |", page)


def _imports(room: str, known: list[str], contracts: list[dict[str, Any]]) -> str:
    own = [each for each in contracts if room in each["source_modules"]]
    forbidden = {room, *(name for each in own for name in each["forbidden_modules"])}
    excepted = {rule.partition(" -> ")[2] for each in own for rule in each.get("ignore_imports", ())}
    allowed = [name for name in known if name not in forbidden] + [f"`{name}`" for name in sorted(excepted)]
    return ", ".join(allowed) or "the standard library"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
