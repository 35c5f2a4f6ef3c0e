"""The table of faults: entries, the look-up of their lines, the draw, and the tests of `make test`."""

import re
from typing import Any

import pytest
import yaml

from tools.faults.draw import NUMBER, statements
from tools.faults.run import marker_expression
from tools.faults.table import ROOT, TABLE, Fault, FaultError, Place, broken_text, find, product, read_table

ENTRY = {"fault": "it forgets", "line": "keep(it)", "broken": "pass", "test": "tests/unit/test_it.py::test_it"}
SOURCE = """\
def first():
    keep(it)


def second():
    if it:
        keep(it)
"""


def table(*entries: dict[str, Any], **skipped: str) -> str:
    numbers = {int(number.lstrip("n")): reason for number, reason in skipped.items()}
    return yaml.safe_dump({"skipped": numbers, "faults": list(entries)})


def fault(**changes: Any) -> Fault:
    return Fault(1, **(ENTRY | changes))


def test_entries_are_numbered_by_their_place() -> None:
    faults, skipped = read_table(table(ENTRY, ENTRY | {"near": "def second():", "draw": 3}, n4="equivalent"))

    assert faults == [fault(), Fault(2, **ENTRY, near="def second():", draw=3)]
    assert skipped == {4: "equivalent"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{key: value for key, value in ENTRY.items() if key != "test"}], "fault 1: no test"),
        ([ENTRY, ENTRY | {"path": "it.py"}], "fault 2: unknown path"),
        ([ENTRY | {"broken": "keep(it)"}], "fault 1: the broken line is the line itself"),
        ([ENTRY | {"draw": 2}, ENTRY | {"draw": 2}], "number of the draw in two entries: 2"),
        ([ENTRY | {"draw": 4}], "number of the draw in two entries: 4"),
    ],
)
def test_wrong_entry_is_refused(entries: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        read_table(table(*entries, n4="equivalent"))


def test_line_is_found_by_its_text_alone_in_any_file() -> None:
    sources = {"one.py": "keep(it) or fail()\n", "room/two.py": "if it:\n    keep(it)\n"}

    assert find(fault(), sources) == Place("room/two.py", 1)


def test_line_is_told_apart_by_one_before_it() -> None:
    assert find(fault(near="if it:"), {"it.py": SOURCE}) == Place("it.py", 6)
    with pytest.raises(FaultError, match=r"fault 1: the product has 2 lines 'keep\(it\)'\n  it\.py:2\n  it\.py:7"):
        find(fault(), {"it.py": SOURCE})
    with pytest.raises(FaultError, match=r"fault 1: the product has 0 lines 'keep\(it\)' near 'else:'"):
        find(fault(near="else:"), {"it.py": SOURCE})


def test_broken_line_has_the_indentation_of_the_line() -> None:
    broken = broken_text(fault(), Place("it.py", 6), SOURCE)

    assert broken.splitlines()[6] == "        pass"
    assert broken.splitlines()[:6] == SOURCE.splitlines()[:6]


def test_broken_line_that_is_no_python_is_refused() -> None:
    with pytest.raises(FaultError, match=r"fault 1: it\.py: "):
        broken_text(fault(broken="keep(it"), Place("it.py", 6), SOURCE)


@pytest.mark.parametrize(("path", "room"), [("netlink/wire.py", "netlink"), ("harness/cli/gc.py", "harness/cli")])
def test_room_is_a_folder_and_that_of_harness_a_package(path: str, room: str) -> None:
    assert Place(path, 0).room == room


PYTHON = '''\
"""A docstring."""
import os
T = TypeVar("T")
if TYPE_CHECKING:
    from lean import x
class Record:
    """Another one."""
    name: str
    size: int = 3
    @property
    def value(self):
        # a comment
        try:
            return call(
                self.name,
            )
        except OSError:
            pass
'''
C = """\
#include <errno.h>
static int sum(int a)
{
    int total;
    struct pollfd event = {.fd = 1};
    /* a comment (and more); */
    if (a > 1)
        return a;
    total = a + 1;
    while (poll(a)) {
        call(a);
    }
    return total;
}
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "it.py",
            PYTHON,
            [(3, 'T = TypeVar("T")'), (9, "size: int = 3"), (14, "return call("), (17, "except OSError:")],
        ),
        (
            "it.c",
            C,
            [
                *[(8, "return a;"), (9, "total = a + 1;"), (10, "while (poll(a)) {")],
                *[(11, "call(a);"), (13, "return total;")],
            ],
        ),
    ],
)
def test_statements_with_an_effect_are_drawn(path: str, text: str, expected: list[tuple[int, str]]) -> None:
    assert list(statements(path, text)) == expected


def test_marker_expression_comes_from_the_makefile() -> None:
    commands = (
        "ruff check\ntools/test_run.sh .venv/bin/python -m pytest -n 4 \\\n\t--dist load -m 'not needs and not slow' \n"
    )

    assert marker_expression(commands) == "not needs and not slow"


def test_each_line_of_the_table_is_in_the_product_once_and_each_test_in_its_file() -> None:
    faults, skipped = read_table(TABLE.read_text())
    sources = product()

    for each in faults:
        broken_text(each, place := find(each, sources), sources[place.path])
        file, *_, name = re.sub(r"\[.*", "", each.test).split("::")
        assert f"def {name}(" in (ROOT / file).read_text(), each.test
    drawn = [each.draw for each in faults if each.draw]
    assert (len(faults), len(drawn)) == (60, 30)
    assert sorted([*drawn, *skipped]) == list(range(1, len(drawn) + len(skipped) + 1))
    assert max(drawn) <= NUMBER
