"""Statistics of the benchmark, on samples whose answer is known."""

from random import Random
from statistics import median

import pytest

from harness.bench.measurements import Ratio, Summary, in_turns, percentile


def chance() -> Random:
    """The same each time."""
    return Random(7)  # noqa: S311 -- nobody's secret


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (50.5, 51), (90, 90), (99, 99), (99.1, 100), (100, 100)]
)
def test_a_percentile_is_the_nearest_rank(percent: float, expected: float) -> None:
    samples = [float(number) for number in range(1, 101)]
    chance().shuffle(samples)

    assert percentile(samples, percent) == expected


def test_a_single_sample_is_every_percentile() -> None:
    assert [percentile([3.0], percent) for percent in (0, 50, 99, 100)] == [3.0] * 4


def test_a_summary_of_known_samples() -> None:
    assert Summary.of([5.0, 1.0, 2.0, 100.0, 3.0]) == Summary(
        count=5, min=1.0, median=3.0, p90=100.0, p99=100.0, max=100.0, mad=2.0
    )


def test_an_outlier_moves_neither_median_nor_mad() -> None:
    calm = Summary.of([1.0, 2.0, 3.0, 4.0, 5.0])
    disturbed = Summary.of([1.0, 2.0, 3.0, 4.0, 5000.0])

    assert (disturbed.median, disturbed.mad) == (calm.median, calm.mad)


def test_ratio_is_computed_from_the_medians() -> None:
    ratio = Ratio.of([1.0, 2.0, 30.0], [4.0, 4.0, 4.0])

    assert ratio.value == 0.5
    assert (ratio.low, ratio.high) == (0.25, 7.5)


def test_the_interval_of_a_ratio_holds_the_truth_and_narrows_with_the_samples() -> None:
    source = chance()

    def interval(count: int) -> Ratio:
        return Ratio.of([source.gauss(10, 1) for _ in range(count)], [source.gauss(20, 2) for _ in range(count)])

    few, many = interval(10), interval(400)
    assert few.low < 0.5 < few.high
    assert many.low < 0.5 < many.high
    assert many.high - many.low < (few.high - few.low) / 2


def test_disturbance_of_both_suites_does_not_widen_the_interval() -> None:
    source = chance()
    disturbed = [source.uniform(1, 10) for _ in range(60)]

    together = Ratio.of([0.5 * each for each in disturbed], disturbed)
    apart = Ratio.of([0.5 * each for each in disturbed], disturbed[:-1])

    assert (together.low, together.value, together.high) == pytest.approx((0.5, 0.5, 0.5))
    assert apart.high - apart.low > 0.1


def test_the_same_samples_give_the_same_interval() -> None:
    source = chance()
    samples = [source.uniform(1, 2) for _ in range(30)]

    assert Ratio.of(samples, samples[::-1]) == Ratio.of(samples, samples[::-1])
    assert Ratio.of(samples, samples[::-1]).value == median(samples) / median(samples)


def test_every_second_round_is_in_reverse() -> None:
    assert "".join(in_turns("ABC", 4)) == "ABCCBAABCCBA"
    assert list(in_turns(["only"], 3)) == ["only"] * 3
    assert list(in_turns("AB", 0)) == []
