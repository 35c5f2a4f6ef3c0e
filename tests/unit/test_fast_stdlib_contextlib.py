"""`fast_stdlib.contextlib` and `fast_stdlib.functools` held against the standard library: values, errors, ends."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fast_stdlib.contextlib
import fast_stdlib.functools


class OwnError(Exception):
    pass


def passing(steps: list[str]) -> Iterator[str]:
    steps.append("begin")
    try:
        yield "value"
    finally:
        steps.append("end")


def catching(steps: list[str]) -> Iterator[str]:
    try:
        yield "value"
    except Exception as error:  # noqa: BLE001 -- it shows which one came
        steps.append(f"caught {type(error).__name__}")


def replacing(steps: list[str]) -> Iterator[str]:
    try:
        yield "value"
    except Exception as error:
        raise KeyError("another") from error


def raising_first(steps: list[str]) -> Iterator[str]:
    raise OwnError("before the block")
    yield "value"


def raising_last(steps: list[str]) -> Iterator[str]:
    yield "value"
    raise OwnError("after the block")


def yielding_never(steps: list[str]) -> Iterator[str]:
    yield from ()


def yielding_twice(steps: list[str]) -> Iterator[str]:
    yield "value"
    steps.append("between")
    yield "more"


def yielding_after_error(steps: list[str]) -> Iterator[str]:
    try:
        yield "value"
    except Exception:  # noqa: BLE001 -- any error
        yield "more"


GENERATORS = [
    passing,
    catching,
    replacing,
    raising_first,
    raising_last,
    yielding_never,
    yielding_twice,
    yielding_after_error,
]
ERRORS = [
    None,
    OwnError("in the block"),
    StopIteration("in the block"),
    RuntimeError("in the block"),
    KeyboardInterrupt(),
]


def outcome(run: Callable[[list[str]], object]) -> tuple[object, ...]:
    """Return the steps, and the error with its cause: what a caller can tell."""
    steps: list[str] = []
    try:
        run(steps)
    except BaseException as error:  # noqa: BLE001 -- compared
        return steps, type(error), str(error), type(error.__cause__)
    return steps, None


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda each: each.__name__)
def test_a_context_manager_ends_as_the_standard_library_s(
    generator: Callable[[list[str]], Iterator[str]], error: BaseException | None
) -> None:
    def block(module: Any, steps: list[str]) -> None:
        with module.contextmanager(generator)(steps) as value:
            steps.append(f"got {value}")
            if error is not None:
                raise error.with_traceback(None)
        steps.append("after")

    ours = outcome(functools.partial(block, fast_stdlib.contextlib))

    assert ours == outcome(functools.partial(block, contextlib))


def test_an_error_keeps_the_traceback_of_its_block() -> None:
    def depth(module: Any) -> int:
        with pytest.raises(OwnError) as caught, module.contextmanager(passing)([]):
            raise OwnError
        return len(caught.traceback)

    assert depth(fast_stdlib.contextlib) == depth(contextlib)


def test_a_context_manager_serves_as_a_method_with_its_name_and_text() -> None:
    class Box:
        @fast_stdlib.contextlib.contextmanager
        def opened(self, value: int) -> Iterator[int]:
            """Open it."""
            yield value

    with Box().opened(value=3) as value:
        assert value == 3
    assert (Box.opened.__name__, Box.opened.__doc__) == ("opened", "Open it.")


@pytest.mark.parametrize("classes", [(), (KeyError,), (LookupError, OSError), (BaseException,)], ids=repr)
@pytest.mark.parametrize("error", [None, KeyError("k"), FileNotFoundError(2, "n"), KeyboardInterrupt()], ids=repr)
def test_suppress_ends_the_same_errors(classes: tuple[type[BaseException], ...], error: BaseException | None) -> None:
    def block(module: Any, steps: list[str]) -> None:
        with module.suppress(*classes):
            if error is not None:
                raise error
        steps.append("after")

    ours = outcome(functools.partial(block, fast_stdlib.contextlib))

    assert ours == outcome(functools.partial(block, contextlib))


def test_nullcontext_passes_its_value_and_errors() -> None:
    with fast_stdlib.contextlib.nullcontext("value") as value:
        assert value == "value"
    with pytest.raises(OwnError), fast_stdlib.contextlib.nullcontext():
        raise OwnError


def test_partial_is_the_standard_library_s() -> None:
    assert fast_stdlib.functools.partial is functools.partial
