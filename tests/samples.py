"""A part of the rows of long tables, the same in each run. `--all-rows` runs all of them.

Such a table repeats what other tests, or `make matrix` and `make soak`, examine in full.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

import pytest

Item = TypeVar("Item", bound=pytest.Item)


def sampled(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return the tests to run and the others, each in their order.

    Of a test marked `one_row_in(n)`, every n-th of the collected rows is run. Fewer than n rows are all run: they have
    been named.
    """
    tables: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("one_row_in"):
            tables[item.nodeid.partition("[")[0]].append(item)
    left_out: set[Item] = set()
    for table, rows in tables.items():
        marker = rows[0].get_closest_marker("one_row_in")
        assert marker is not None
        (step,) = marker.args
        if len(rows) >= step:
            left_out.update(set(rows) - set(rows[crc32(table.encode()) % step :: step]))
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def share(config: pytest.Config, number: int, *, one_in: int) -> int:
    """Return `number`, or one n-th of it without `--all-rows`: for points in one test, which are no rows."""
    return number if config.getoption("all_rows") else number // one_in
