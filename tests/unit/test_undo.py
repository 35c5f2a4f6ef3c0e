"""Finished steps are taken back whole, whatever happens to a part of it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from skel import CniError, Code, Undo


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


def test_success_undoes_nothing() -> None:
    undone: list[int] = []

    with Undo(pytest.fail) as undo:
        undo.add(undone.append, 1)

    assert undone == []


def test_undo_runs_in_reverse_after_a_failure() -> None:
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
def test_undo_completes_before_the_process_ends(end: BaseException) -> None:
    """The launcher may be killed, and a worker's time may be over, while an ADD that has failed takes things back."""
    work = Work(GeneratorExit("second"), end)

    with pytest.raises(type(end)) as raised:
        work.fail()

    assert raised.value is end
    assert work.undone == [3, 1]
    assert work.logged == [f"undoing after a failure: {end}", "undoing after a failure: second"]


class Journal:
    """Resources and inverses that note the order in which they are used."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def resource(self, name: str, error: Exception | None = None) -> Iterator[str]:
        self.lines.append(f"open {name}")
        try:
            yield name
        finally:
            self.lines.append(f"close {name}")
            if error is not None:
                raise error

    def undo_with(self, name: str) -> None:
        self.lines.append(f"undo with {name}")


def test_a_resource_closes_after_the_inverses_that_use_it() -> None:
    journal = Journal()

    def add() -> None:
        with Undo(pytest.fail) as undo:
            for name in ("host", "pod"):
                undo.add(journal.undo_with, undo.enter(journal.resource(name)))
            raise KeyError

    with pytest.raises(KeyError):
        add()

    assert journal.lines == [
        "open host", "open pod", "undo with pod", "close pod", "undo with host", "close host",
    ]  # fmt: skip


def test_a_resource_closes_after_a_success() -> None:
    journal = Journal()

    with Undo(pytest.fail) as undo:
        undo.add(journal.undo_with, undo.enter(journal.resource("host")))

    assert journal.lines == ["open host", "close host"]


def test_a_resource_that_does_not_open_leaves_the_others_closed() -> None:
    journal = Journal()

    def add() -> None:
        with Undo(pytest.fail) as undo:
            undo.add(journal.undo_with, undo.enter(journal.resource("host")))
            undo.enter(open_namespace("/nonexistent"))

    with pytest.raises(FileNotFoundError):
        add()

    assert journal.lines == ["open host", "undo with host", "close host"]


def test_a_resource_does_not_suppress_the_error_of_an_add() -> None:
    def add() -> None:
        with Undo(pytest.fail) as undo:
            undo.enter(suppress(KeyError))
            raise KeyError

    with pytest.raises(KeyError):
        add()


def test_a_resource_that_fails_to_close_after_a_success_fails_the_add() -> None:
    journal, error = Journal(), OSError(5, "not written")

    def add() -> None:
        with Undo(pytest.fail) as undo:
            undo.enter(journal.resource("host"))
            undo.enter(journal.resource("file", error))

    with pytest.raises(OSError, match="not written") as raised:
        add()

    assert raised.value is error
    assert journal.lines[-1] == "close host"


def test_error_of_an_add_names_inverses_with_a_closed_socket() -> None:
    """Only a log line showed that nothing was undone; a test of the failing ADD passed."""
    logged: list[str] = []
    undone: list[str] = []

    def add() -> None:
        with Undo(logged.append) as undo, Rtnl() as host:
            undo.add(undone.append, "first")
            undo.add(host.link, "lo")
            raise CniError(Code.TRY_AGAIN_LATER, "no address is free")

    with pytest.raises(RuntimeError) as raised:
        add()

    assert str(raised.value).startswith("no address is free; not undone: [Errno 9] Bad file descriptor: open what")
    assert isinstance(raised.value.__cause__, CniError)
    assert undone == ["first"]
    assert logged == ["undoing after a failure: [Errno 9] Bad file descriptor"]
