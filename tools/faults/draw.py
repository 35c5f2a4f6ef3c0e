"""Draws lines of the product by a fixed seed, at a fixed commit, so that the choice can be repeated."""

import ast
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tools.faults.table import ROOT, product

COMMIT: Final = "693c045d2ed1522074714d05bfc65049b054999b"
SEED: Final = 60
NUMBER: Final = 40
"""More than wanted, for lines that no change of one line breaks."""
_WITHOUT_EFFECT: Final = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Pass, ast.Global, ast.Nonlocal, ast.Try),
)
_C_STATEMENT: Final = re.compile(
    r"\s+(?!//|/\*|\*|#|struct |static |extern |typedef )\S.*[=(].*[;{]|\s+(return|goto)\b.*;"
)


class Drawn(NamedTuple):
    """A line of the draw."""

    path: str
    number: int
    """From 1."""
    text: str


def draw() -> list[Drawn]:
    """Return the lines, in the order in which they are drawn. Raises CalledProcessError without the commit."""
    with TemporaryDirectory(prefix="cni-harness-faults-") as folder:
        archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
        sources = product(Path(folder))
    lines = [Drawn(path, *line) for path, text in sources.items() for line in statements(path, text)]
    return random.Random(SEED).sample(lines, NUMBER)  # noqa: S311 -- no secret


def statements(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that begins a statement with an effect.

    Imports, definitions, decorators, docstrings and annotations have none. Of C, these are lines that end with `;` or
    `{`, with a call, an assignment, `return` or `goto`, and no declaration of a structure.
    """
    lines = text.splitlines()
    if path.endswith(".py"):
        numbers = sorted(set(_python(ast.parse(text))))
    else:
        numbers = [number for number, line in enumerate(lines, 1) if _C_STATEMENT.fullmatch(line)]
    for number in numbers:
        yield number, lines[number - 1].strip()


def _python(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.stmt | ast.ExceptHandler) and not _without_effect(node):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _python(child)


def _without_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    return isinstance(node, _WITHOUT_EFFECT) or (isinstance(node, ast.AnnAssign) and node.value is None)
