"""IDs of checks are frozen: others name them in files of known failures, on command lines and in reports.

`check_ids.txt` has a line for each: the ID, and the version of the suite that it came with. A new check is a new line
with the present version. The lines of earlier versions never change.
"""

from hashlib import sha256
from pathlib import Path

import pytest

from harness.conformance import catalogue
from harness.conformance.checks import all_checks

LIST = Path(catalogue.__file__).with_name("check_ids.txt")
LINES = LIST.read_text(encoding="utf-8").splitlines()
VERSION_OF = dict(line.split(" ") for line in LINES)
EARLIER = {
    "1.1.0-1": (205, "5607180a04f0255346487beae349031b5163a09b29a399737797ba891075c9b8"),
    "1.1.0-2": (21, "8bb3d8a439c0b54ebc35a7e1e3ed3b6ec3fea0fd644bca82932c7ba1a9c98cdf"),
}
"""The number of IDs that came with a version, and the SHA-256 of them, one on each line."""


def test_list_of_check_ids_has_every_check_and_no_others() -> None:
    known = {check.id for check in all_checks()}

    assert {"new": known - VERSION_OF.keys(), "gone": VERSION_OF.keys() - known} == {"new": set(), "gone": set()}


def test_the_list_is_sorted_and_names_each_id_once() -> None:
    names = [line.split(" ")[0] for line in LINES]

    assert names == sorted(set(names))


@pytest.mark.parametrize("version", EARLIER)
def test_the_ids_of_an_earlier_version_stay(version: str) -> None:
    names = [name for name, since in VERSION_OF.items() if since == version]

    assert (len(names), sha256("\n".join(names).encode()).hexdigest()) == EARLIER[version]


def test_other_ids_came_with_the_present_version() -> None:
    assert set(VERSION_OF.values()) == {*EARLIER, catalogue.SUITE_VERSION}
