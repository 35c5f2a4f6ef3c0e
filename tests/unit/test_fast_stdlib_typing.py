"""What `fast_stdlib.typing` is at run time, held against `typing`."""

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

import fast_stdlib.typing
from fast_stdlib.typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Ours(NamedTuple):
    """Two items, of which the second may be left out."""

    index: int  # type: ignore[assignment]
    text: str = "none"

    @property
    def double(self) -> int:
        return 2 * self.index


class Theirs(typing.NamedTuple):
    index: int  # type: ignore[assignment]
    text: str = "none"

    @property
    def double(self) -> int:
        return 2 * self.index


class More(Ours):
    """The same items."""


class Box(Generic[T]):
    """Subscripted in annotations, and as a base."""


class IntBox(Box[int]):
    pass


GOOD: list[Callable[[Any], object]] = [
    lambda cls: cls(1),
    lambda cls: cls(1, "a"),
    lambda cls: cls(text="a", index=1),
    lambda cls: cls(1, text="a").text,
    lambda cls: cls(7).double,
    lambda cls: cls(1) == (1, "none"),
    lambda cls: hash(cls(1)) == hash((1, "none")),
    lambda cls: {cls(1)} | {cls(index=1)},
    lambda cls: cls(1) < cls(2),
    lambda cls: [*cls(1)],
    lambda cls: cls(1)._replace(text="b"),
    lambda cls: cls(1)._asdict(),
    lambda cls: cls._fields,
    lambda cls: cls._field_defaults,
    lambda cls: cls.__match_args__,
    lambda cls: repr(cls(1)).partition("(")[2],
    lambda cls: copy.deepcopy(cls(1, "a")),
    lambda cls: pickle.loads(pickle.dumps(cls(1, "a"))),  # noqa: S301 -- our own
]

BAD: list[Callable[[Any], object]] = [
    lambda cls: cls(),
    lambda cls: cls(text="a"),
    lambda cls: cls(1, "a", None),
    lambda cls: cls(1, index=1),
    lambda cls: cls(1, other=1),
    lambda cls: cls(1, "a", other=1),
    lambda cls: cls(1)._replace(index=2).index.missing,
]


@pytest.mark.parametrize("cls", [Ours, More])
@pytest.mark.parametrize("use", GOOD)
def test_a_named_tuple_is_one_of_the_standard_library(use: Callable[[Any], object], cls: type) -> None:
    assert use(cls) == use(Theirs)


@pytest.mark.parametrize("use", BAD)
def test_bad_uses_raise_the_same_errors(use: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError)) as theirs:
        use(Theirs)
    with pytest.raises(theirs.type):
        use(Ours)


def test_a_copy_is_of_the_same_class() -> None:
    for made in (copy.copy(Ours(1)), Ours(1)._replace(index=2), pickle.loads(pickle.dumps(Ours(1)))):  # noqa: S301 -- our own
        assert type(made) is Ours


def test_a_generic_class_takes_parameters_and_is_itself() -> None:
    assert isinstance(IntBox(), Box)
    assert typing.get_origin(Box[int]) is Box
    assert typing.get_args(Box[int]) == (int,)


def test_each_name_exists_in_typing() -> None:
    assert set(fast_stdlib.typing.__all__) <= set(typing.__all__)
