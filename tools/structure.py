"""Counts the modules and lines of each room, and lists places where the structure may be simpler.

`python -m tools.structure` reads the rooms of docs/design.md, without generated code. It lists modules with a single
importer, `__all__` of modules that are not the face of a package, and names that stand for several public classes. The
counts come last. With `--at-most-modules N` the exit code is 1 if there are more modules in all.
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parent.parent
_ROOM: Final = re.compile(r"^\| `(\w+)/` \|", re.MULTILINE)
_GENERATED: Final = "_pb2"
_STAND_INS: Final = "fast_stdlib"
"""Its modules hand on names of the standard library, which `__all__` makes public."""


class Module(NamedTuple):
    """A module of a room. `is_package` says that it is the `__init__.py` of a folder."""

    name: str
    path: Path
    lines: int
    tree: ast.Module
    is_package: bool

    @property
    def room(self) -> str:
        """The name of the top folder."""
        return self.name.partition(".")[0]


def rooms(design: str) -> list[str]:
    """Return the folders in the first column of the table of rooms."""
    return _ROOM.findall(design)


def modules(root: Path, folders: Iterable[str]) -> Iterator[Module]:
    """Yield the modules below some folders of `root`. Raises OSError, SyntaxError."""
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        if _GENERATED not in path.name:
            text, parts = path.read_text(), path.relative_to(root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            yield Module(name, path.relative_to(root), len(text.splitlines()), ast.parse(text), is_package)


def importers(found: Sequence[Module]) -> dict[str, dict[str, bool]]:
    """Return the modules that import each module, and whether only functions do so. Imports by string do not count."""
    names = {module.name for module in found}
    importing: dict[str, dict[str, bool]] = defaultdict(dict)
    for module in found:
        functions = [each for each in ast.walk(module.tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        inner = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(module.tree):
            for name in set(_imported(node, module)) & names - {module.name}:
                importing[name][module.name] = importing[name].get(module.name, True) and id(node) in inner
    return importing


def _imported(node: ast.AST, module: Module) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = module.name.split(".")[: None if module.is_package else -1]
        package = above[: len(above) + 1 - node.level] if node.level else []
        base = ".".join([*package, *([node.module] if node.module else [])])
        yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def needless_all(found: Iterable[Module]) -> Iterator[Path]:
    """Yield the files that have `__all__`, and are neither faces of packages nor stand-ins."""
    for module in found:
        assigned = [target for node in module.tree.body if isinstance(node, ast.Assign) for target in node.targets]
        has_all = any(isinstance(target, ast.Name) and target.id == "__all__" for target in assigned)
        if has_all and not module.is_package and module.room != _STAND_INS:
            yield module.path


def shared_names(found: Iterable[Module]) -> dict[str, list[str]]:
    """Return the names of several public classes, with the place of each."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.path}:{node.lineno}")
    return {name: each for name, each in sorted(places.items()) if len(each) > 1}


def main() -> int:
    """Print the lists and the counts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at-most-modules", type=int, metavar="N", help="in all rooms together")
    options = parser.parse_args()
    found = list(modules(_ROOT, rooms((_ROOT / "docs/design.md").read_text())))
    by_name, said = importers(found), sys.stdout.write
    for module in found:
        if len(by := by_name.get(module.name, {})) == 1 and not module.is_package:
            [(importer, is_lazy)] = by.items()
            said(f"{module.path}: {module.lines} lines, imported {'lazily ' * is_lazy}by {importer} alone\n")
    for path in needless_all(found):
        said(f"{path}: __all__, but no face of a package\n")
    for name, places in shared_names(found).items():
        said(f"class {name}: {', '.join(places)}\n")
    counts, lines = Counter(module.room for module in found), Counter[str]()
    for module in found:
        lines[module.room] += module.lines
    for room, count in [*counts.items(), ("total", counts.total())]:
        said(f"{room:20} {count:4} modules {lines[room] or lines.total():7} lines\n")
    return int(options.at_most_modules is not None and counts.total() > options.at_most_modules)


if __name__ == "__main__":
    sys.exit(main())
