"""The one decoder of JSON from other programs, for plugins and runtimes.

It refuses input that the json module of Python accepts and Go's decoder refuses: NaN and Infinity, numbers beyond
64 bits, a byte order mark, UTF-16. It also refuses a key that is written twice in one object, of which Go drops one.
"""

from lean import json
from lean.typing import NoReturn

__all__ = ["decode_json"]

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_SHOWN = 40
"""Characters of a number that an error shows."""


def decode_json(text: str | bytes) -> object:
    """Parse JSON; bytes are UTF-8.

    Raises ValueError: JSONDecodeError with the place, UnicodeDecodeError, or a plain one, also for too many levels.
    """
    try:
        document: object = json.loads(
            text if isinstance(text, str) else text.decode(),
            object_pairs_hook=_members,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_of_64_bits,
        )
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return document


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"{twice}: the key is written twice in one object, last as {json.dumps(members[twice], default=str)}"
        raise ValueError(message)
    return members


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not a number of JSON"
    raise ValueError(message)


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise _beyond(text)
    return number


def _of_64_bits(text: str) -> int:
    # The length first: int() of a very long text is slow, and refused with another message.
    if len(text) > len(str(_LOWEST)) or not _LOWEST <= (number := int(text)) <= _HIGHEST:
        raise _beyond(text)
    return number


def _beyond(text: str) -> ValueError:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return ValueError(f"{shown} is beyond a 64-bit number")
