"""The one decoder of JSON from other programs, for plugins and runtimes.

It refuses input that the json module of Python accepts and Go's decoder refuses: NaN and Infinity, numbers beyond
64 bits, a byte order mark, UTF-16. `decode_json`, for configurations and files, also refuses bytes that are no UTF-8,
and a key that is written twice in one object. `decode_output`, for the output of plugins, takes both as Go does.
"""

from fast_stdlib import json
from fast_stdlib.typing import Any, Callable, NoReturn

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_SHOWN = 40
"""Characters of a number that an error shows."""
_MARKS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def decode_json(text: str | bytes) -> object:
    """Parse JSON; bytes are UTF-8.

    Raises ValueError: JSONDecodeError with the place, UnicodeDecodeError, or a plain one, also for too many levels.
    """
    return _decoded(text if isinstance(text, str) else text.decode(), _members)


def decode_output(output: bytes) -> object:
    """Parse JSON that a plugin has printed, as Go's encoding/json does, which runtimes and other plugins read it with.

    Bytes that are no UTF-8, and halves of surrogate pairs, become U+FFFD. Of a key that is written twice, the last
    value counts. Raises ValueError.
    """
    for mark, name in _MARKS.items():
        if output.startswith(mark):
            raise ValueError(f"a byte order mark of {name}, and JSON is UTF-8 without a mark")
    text = output.decode(errors="replace")
    document = _decoded(text, dict)
    return _paired(document) if "\\u" in text else document


def _decoded(text: str, members: Callable[[list[tuple[str, Any]]], object]) -> object:
    try:
        return json.loads(
            text, object_pairs_hook=members, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_of_64_bits
        )
    except RecursionError:  # its words differ between versions of Python
        raise ValueError("too many levels of nesting") from None


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"{twice}: the key is written twice in one object, last as {json.dumps(members[twice], default=str)}"
        raise ValueError(message)
    return members


def _paired(value: object) -> object:
    """Return a document whose texts have U+FFFD for each half of a surrogate pair: no encoding has bytes for a half."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_paired(each) for each in value]
    if isinstance(value, dict):
        return {_paired(key): _paired(each) for key, each in value.items()}
    return value


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
