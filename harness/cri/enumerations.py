"""How values of enumerations are read from files."""

from enum import StrEnum
from typing import TypeVar

from skel.decoders import string
from skel.record import Decoder, expected

E = TypeVar("E", bound=StrEnum)


def member_of(enumeration: type[E], words: str) -> Decoder[E]:
    """Return the decoder of one of the values of `enumeration`; `words` tell in an error what was expected."""

    def decode_member(value: object, path: str) -> E:
        try:
            return enumeration(string(value, path))
        except ValueError:
            raise expected(words, value, path) from None

    return decode_member
