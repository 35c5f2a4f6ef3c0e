"""A sample of `make soak`: nothing is left of our ADDs and DELs that SIGTERM ends, before any DEL and after it."""

from pathlib import Path

import pytest

from harness.conformance.engine.chaos import PointUnit
from tools.soak.soak import Soak, Tally, random_points, soak, subject_in, survey

pytestmark = [pytest.mark.sudo, pytest.mark.slow("a sample of make soak; test_pods_signals ends adds in make test")]

JOBS = 2
SEED = 9


def assert_clean(tally: Tally) -> None:
    assert tally.left == []
    assert tally.left_for_good == []
    assert tally.ended > 0


@pytest.mark.parametrize("kind", ["direct", "served"])
def test_add_at_random_moments(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    subject = subject_in(request.getfixturevalue(f"{kind}_bin_dir"))
    _, microseconds = survey(subject, "ADD", tmp_path)

    assert_clean(
        soak(Soak(kind, subject, "ADD", PointUnit.TIME, random_points(24, microseconds, SEED)), tmp_path, JOBS)
    )


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_sigterm_at_any_system_call_leaves_nothing(verb: str, tmp_path: Path, direct_bin_dir: Path) -> None:
    """Of the second half: in the first one the interpreter starts."""
    subject = subject_in(direct_bin_dir)
    calls, _ = survey(subject, verb, tmp_path)
    points = tuple(range(calls // 2, calls + 1, calls // 48))

    assert_clean(soak(Soak("direct", subject, verb, PointUnit.CALLS, points), tmp_path, JOBS))
