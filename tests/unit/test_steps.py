"""Steps that are all taken, and what failed told together."""

from threading import Event

import pytest

from plugins.steps import Steps
from skel import CniError
from tests.nodes import HANG


def fail(error: Exception) -> None:
    raise error


def test_all_are_taken_and_the_failures_told_together() -> None:
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


def test_one_goes_on_meanwhile_and_has_ended_with_the_block() -> None:
    begun, may_end = Event(), Event()
    ended: list[bool] = []

    def long() -> None:
        begun.set()
        ended.append(may_end.wait(HANG))

    with Steps() as steps:
        with steps.meanwhile(long):
            assert begun.wait(HANG)
            assert ended == []
            may_end.set()
        assert ended == [True]


def test_what_fails_meanwhile_is_told_too() -> None:
    def take_both() -> None:
        with Steps() as steps:
            with steps.meanwhile(fail, CniError(999, "meanwhile")):
                pass
            steps.take(fail, CniError(999, "and here"))

    with pytest.raises(CniError, match=r"meanwhile; and here"):
        take_both()


def test_what_nobody_foresaw_is_not_lost() -> None:
    with pytest.raises(ZeroDivisionError), Steps() as steps, steps.meanwhile(fail, ZeroDivisionError()):
        pass
