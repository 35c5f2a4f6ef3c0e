"""`json` without its modules, which load `re` and `enum`: 4 ms. The same C code does the work.

`json` itself is loaded for errors, and by an interpreter without that code.
"""

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Any, Callable, NoReturn

try:
    import _json
except ImportError:
    _json = None  # type: ignore[assignment] # as mypy has no optional modules

_SPACE = " \t\n\r"


class _Hooks:
    """The scanner's options, by the names of json.JSONDecoder."""

    strict = True
    object_hook = None

    def __init__(
        self,
        object_pairs_hook: Callable[[list[tuple[str, Any]]], Any],
        parse_constant: Callable[[str], Any],
        parse_float: Callable[[str], Any],
        parse_int: Callable[[str], Any],
    ) -> None:
        self.object_pairs_hook = object_pairs_hook
        self.parse_constant = parse_constant
        self.parse_float = parse_float
        self.parse_int = parse_int


def loads(
    text: str,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], object],
    parse_constant: Callable[[str], object],
    parse_float: Callable[[str], object],
    parse_int: Callable[[str], object],
) -> object:
    """Parse JSON as `json.loads` does. Raises its errors."""
    hooks = _Hooks(object_pairs_hook, parse_constant, parse_float, parse_int)
    if _json is not None:
        document = text.strip(_SPACE)
        # SystemError: before Python 3.12 the scanner finds no class for its error if json.decoder is not loaded.
        with suppress(StopIteration, SystemError, ValueError):
            value, end = _json.make_scanner(hooks)(document, 0)  # type: ignore[arg-type] # any object with these attributes
            if end == len(document):
                return value
    import json  # `json` finds the error again, and names its position

    return json.loads(text, **vars(hooks))


def dumps(value: object, *, ensure_ascii: bool = True, default: Callable[[Any], Any] | None = None) -> str:
    """Write JSON as `json.dumps` does. Raises its errors."""
    return encoder(ensure_ascii=ensure_ascii, default=default)(value)


def encoder(*, ensure_ascii: bool = True, default: Callable[[Any], Any] | None = None) -> Callable[[object], str]:
    """Return `dumps` with these options, for many values."""
    if _json is None:
        import json

        return json.JSONEncoder(ensure_ascii=ensure_ascii, default=default).encode
    encode = _json.encode_basestring_ascii if ensure_ascii else _json.encode_basestring
    # Its parameters: visited objects, default, strings, indent, separators, sort_keys, skipkeys, allow_nan.
    parts = _json.make_encoder({}, default or _refuse, encode, None, ": ", ", ", False, False, True)  # noqa: FBT003 -- it takes no keywords
    return lambda value: "".join(parts(value, 0))


def _refuse(value: object) -> NoReturn:
    message = f"Object of type {type(value).__name__} is not JSON serializable"
    raise TypeError(message)
