"""Finished steps are taken back whole, whatever happens to a part of it."""

import pytest

from skel import Undo


class Work:
    """Three steps of which the second one's inverse raises the given error, and a failure after them."""

    def __init__(self, *raised: BaseException) -> None:
        self.undone: list[int] = []
        self.logged: list[str] = []
        self._raised = raised

    def fail(self) -> None:
        with Undo(self.logged.append) as undo:
            undo.add(self.undone.append, 1)
            for error in self._raised:
                undo.add(self._raise, error)
            undo.add(self.undone.append, 3)
            raise KeyError

    def _raise(self, error: BaseException) -> None:
        raise error


def test_nothing_is_taken_back_of_what_succeeds() -> None:
    undone: list[int] = []

    with Undo(pytest.fail) as undo:
        undo.add(undone.append, 1)

    assert undone == []


def test_after_a_failure_it_goes_backwards() -> None:
    work = Work()

    with pytest.raises(KeyError):
        work.fail()

    assert (work.undone, work.logged) == ([3, 1], [])


def test_an_inverse_that_fails_is_logged_and_hides_nothing() -> None:
    work = Work(OSError("no such link"))

    with pytest.raises(KeyError):
        work.fail()

    assert work.undone == [3, 1]
    assert work.logged == ["undoing after a failure: no such link"]


@pytest.mark.parametrize("end", [SystemExit("took too long"), KeyboardInterrupt("Ctrl-C")])
def test_the_end_of_the_process_comes_after_all_of_it(end: BaseException) -> None:
    """The launcher may be killed, and a worker's time may be over, while an ADD that has failed takes things back."""
    work = Work(GeneratorExit("second"), end)

    with pytest.raises(type(end)) as raised:
        work.fail()

    assert raised.value is end
    assert work.undone == [3, 1]
    assert work.logged == [f"undoing after a failure: {end}", "undoing after a failure: second"]
