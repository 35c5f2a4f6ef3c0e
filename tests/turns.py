"""The kinds of execution of tests with a table: its rows are executed directly and by a server in turns."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

__all__ = ["turns"]

Item = TypeVar("Item", bound=pytest.Item)

_KINDS: Final = ("direct", "served")
_PARAMETERS: Final = {"bin_dir", "cli"}
"""The fixtures whose parameter is the kind of execution."""


def turns(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return the tests to run and the others, each in their order."""
    tables: dict[str, dict[str, dict[str, Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        kinds = [parameters[name] for name in _PARAMETERS & parameters.keys()]
        if len(parameters) > 1 and kinds and kinds[0] in _KINDS:
            # The kind is one of the words between hyphens; without it, the name of both is the same.
            row = re.sub(rf"(?<=[\[-]){kinds[0]}(?=[\]-])", "", item.nodeid, count=1)
            tables[item.nodeid.partition("[")[0]][row][kinds[0]] = item
    left_out: set[Item] = set()
    for rows in tables.values():
        for number, kinds_of_row in enumerate(sorted(rows.items())):
            found = kinds_of_row[1]
            if len(found) == len(_KINDS):
                left_out.add(found[_KINDS[number % 2]])
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]
