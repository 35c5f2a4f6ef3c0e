"""Some rows of long tables are run, always the same, and all with `--all-rows`."""

import re

import pytest

from tests.unit.test_turns import collected

pytestmark = pytest.mark.slow("whole collections of pytest, which all other tests have gone through")

TABLE = "tests/conformance/test_other_languages.py"


def rows(*args: str) -> set[str]:
    return set(re.findall(r"test_plugin_in_another_language_passes_each_check\[(.*)\]", "\n".join(collected(*args))))


def test_a_sample_is_a_fixed_part_with_rows_of_all_plugins() -> None:
    sample, every = rows(TABLE), rows(TABLE, "--all-rows")

    assert sample < every
    assert abs(len(every) / 8 - len(sample)) < 1
    assert {row.partition(":")[0] for row in sample} == {"shell-ptp", "perl-ipam"}
    assert rows(TABLE) == sample


def test_a_row_that_is_named_is_run() -> None:
    for row in ("shell-ptp:del-twice", "shell-ptp:add-mac"):
        assert rows(f"{TABLE}::test_plugin_in_another_language_passes_each_check[{row}]") == {row}
