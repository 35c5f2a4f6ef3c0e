"""A part of the rows of long tables, the same in each run.

Of a table marked `one_row_in`, `--all-rows` runs all rows. Such a table repeats what other tests, or `make matrix` and
`make soak`, examine in full. Of a table marked `mostly_slow`, `make test` runs the part, `make test-rest` the others.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

import pytest

Item = TypeVar("Item", bound=pytest.Item)


def sampled(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return the tests to run and the others, each in their order.

    Of a test marked `one_row_in(n)`, every n-th of the collected rows is run.
    """
    left_out = _others(items, "one_row_in")
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def mark_slow(items: Sequence[Item]) -> None:
    """Mark all rows as slow but every n-th of those that are marked `mostly_slow(n, reason)`."""
    for item in _others(items, "mostly_slow"):
        marker = item.get_closest_marker("mostly_slow")
        assert marker is not None
        item.add_marker(pytest.mark.slow(marker.args[1]))


def _others(items: Sequence[Item], name: str) -> set[Item]:
    """Return the rows besides every n-th. Tables of fewer than n rows are whole: their rows have been named."""
    tables: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker(name):
            tables[item.nodeid.partition("[")[0]].append(item)
    others: set[Item] = set()
    for table, rows in tables.items():
        marker = rows[0].get_closest_marker(name)
        assert marker is not None
        step = marker.args[0]
        if len(rows) >= step:
            others.update(set(rows) - set(rows[crc32(table.encode()) % step :: step]))
    return others


def share(config: pytest.Config, number: int, *, one_in: int) -> int:
    """Return `number`, or one n-th of it without `--all-rows`: for points in one test, which are no rows."""
    return number if config.getoption("all_rows") else number // one_in
