"""The kinds of execution, directly and by a server, of tests that take turns with them.

These are the rows of a table, and the tests of the command line in one file: they look at the harness, which executes
files in either case.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar
from zlib import crc32

import pytest

Item = TypeVar("Item", bound=pytest.Item)

_KINDS: Final = ("direct", "served")
_PARAMETERS: Final = {"bin_dir", "cli"}
"""The fixtures whose parameter is the kind of execution."""
_COMMAND_LINE: Final = "make_cli"
"""The fixture of all tests of the command line."""


def turns(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return the tests to run and the others, each in their order."""
    tables: dict[str, dict[str, dict[str, Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        kinds = [parameters[name] for name in _PARAMETERS & parameters.keys()]
        of_cli = _COMMAND_LINE in getattr(item, "fixturenames", ())
        if kinds and kinds[0] in _KINDS and (of_cli or len(parameters) > 1):
            # The kind is one of the words between hyphens; without it, the name of both is the same.
            row = re.sub(rf"(?<=[\[-]){kinds[0]}(?=[\]-])", "", item.nodeid, count=1)
            table = item.nodeid.partition("::" if of_cli else "[")[0]
            tables[table][row][kinds[0]] = item
    left_out: set[Item] = set()
    for table, rows in tables.items():
        # Not the same kind first in each table: a kernel may lack all links but one.
        for number, row in enumerate(sorted(rows), crc32(table.encode())):
            found = rows[row]
            if len(found) == len(_KINDS):
                left_out.add(found[_KINDS[number % 2]])
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]
