"""Steps that are all taken, and what failed told together."""

import pytest

from skel import CniError
from skel.steps import Steps


def fail(error: Exception) -> None:
    raise error


def test_all_steps_run_and_failures_are_raised_together() -> None:
    taken: list[str] = []

    def take_all() -> None:
        with Steps() as steps:
            steps.take(fail, CniError(7, "one"))
            steps.take(taken.append, "two")
            steps.take(fail, OSError(5, "three"))

    with pytest.raises(CniError, match=r"one; .*three"):
        take_all()
    assert taken == ["two"]


def test_a_single_failure_is_raised_as_it_is() -> None:
    error = CniError(11, "later")
    with pytest.raises(CniError) as raised, Steps() as steps:
        steps.take(fail, error)

    assert raised.value is error
