"""The rows of a table, and tests of the command line, take turns with both kinds of execution."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.cli import ROOT
from tests.nodes import HANG

pytestmark = pytest.mark.slow("whole collections of pytest, which all other tests have gone through")

TABLE = "tests/node/test_macvlan.py"


@cache
def collected(*args: str) -> tuple[str, ...]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *args]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=True)
    return tuple(re.findall(r"::(\S.*)", ran.stdout))


def test_each_row_has_one_kind_and_the_table_both() -> None:
    names = collected(TABLE)

    modes = [name for name in names if name.startswith("test_mode[")]
    assert len(modes) == 5
    assert set(Counter(re.sub("direct|served", "", name) for name in modes).values()) == {1}
    assert {"direct" in name for name in modes} == {True, False}
    assert {name for name in names if "test_bcqueuelen" in name} == {
        "test_bcqueuelen[direct]",
        "test_bcqueuelen[served]",
    }


def test_the_command_lines_tests_take_turns() -> None:
    names = [re.findall("direct|served", name) for name in collected("tests/node/test_cli_inspect.py")]

    kinds = Counter(kind for found in names for kind in found)
    assert abs(kinds["direct"] - kinds["served"]) <= 1
    assert len(set(collected("tests/node/test_cli_inspect.py", "--both-kinds"))) == len(names) + kinds.total()


def test_each_row_has_both_kinds_if_that_is_wanted() -> None:
    modes = [name for name in collected(TABLE, "--both-kinds") if name.startswith("test_mode[")]

    assert len(modes) == 10


def test_a_row_that_is_named_is_run() -> None:
    for kind in ("direct", "served"):
        row = f"test_mode[{kind}-vepa]"

        assert collected(f"{TABLE}::{row}") == (row,)
