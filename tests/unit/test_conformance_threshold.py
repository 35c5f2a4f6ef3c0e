"""The failures that count, by --fail-on and --level, and the table of effects."""

import pytest

from harness.conformance.checks import all_checks
from harness.conformance.runtime_checks.catalogue import runtime_checks
from harness.conformance.sentences import Level
from harness.conformance.threshold import FailOn, Side, Threshold, effects, without_effect
from tools.conformance_effects import PAGE, tabled

WITH_EFFECT, WITHOUT = "containerd-stops", "about"
KINDS = [
    "a pod without its network",
    "something left",
    "another pod or the node changed",
    "an error that no runtime can read",
    "a CHECK that sees nothing",
]


@pytest.mark.parametrize(
    ("fail_on", "counted"),
    [
        (FailOn.MUST, ["MUST"]),
        (FailOn.WORKS, ["MUST", "effect"]),
        (FailOn.SHOULD, ["MUST", "effect", "SHOULD"]),
        (FailOn.MAY, ["MUST", "effect", "SHOULD", "MAY"]),
        (FailOn.CONVENTION, ["MUST", "effect", "SHOULD", "MAY", "CONVENTION"]),
    ],
)
def test_fail_on_counts_its_level_and_all_stricter_ones(fail_on: FailOn, counted: list[str]) -> None:
    threshold = Threshold(fail_on)

    found = ["effect" for _ in "1" if threshold.counts(WITH_EFFECT, Level.CONVENTION)]
    found += [level for level in Level if threshold.counts(WITHOUT, level)]

    assert sorted(found) == sorted(counted)


@pytest.mark.parametrize("level", Level)
def test_a_level_that_is_not_examined_does_not_count(level: Level) -> None:
    threshold = Threshold(FailOn.CONVENTION, level)

    counted = [each for each in Level if threshold.counts(WITH_EFFECT, each)]

    assert counted == list(Level)[: list(Level).index(level) + 1]


@pytest.mark.parametrize(
    ("side", "known"),
    [
        ("plugins", {each.id for each in all_checks()}),
        ("runtimes", {each.id for each in runtime_checks() if each.level is not Level.MUST}),
    ],
)
def test_table_of_effects_has_each_check_once_with_words(side: Side, known: set[str]) -> None:
    listed = [*effects(side), *without_effect(side)]

    assert sorted(listed) == sorted(known)
    assert all([*(each.words for each in effects(side).values()), *without_effect(side).values()])
    assert {each.kind for each in effects(side).values()} <= set(KINDS)


def test_every_kind_of_effect_has_checks() -> None:
    assert list(dict.fromkeys(each.kind for each in effects().values())) == KINDS


def test_the_page_has_the_tables_of_the_code() -> None:
    page = PAGE.read_text()

    assert tabled(page) == page
