"""Typed reading and writing of JSON objects.

A `Record` subclass declares its fields; `decode` reads them from a JSON object
and `encode` writes them back in the specification's own spelling:

    class Range(Record):
        subnet: Network = field(network)
        range_start: Address | None = field(address, default=None)

Why not a library: a plugin is a process that runs for milliseconds. msgspec costs 27 ms to import, and pydantic more.
Neither reads keys in any case, as Go programs do and runtimes rely on. Neither names the value in its errors. The rules
are Go's: `null` is absent, unknown keys are ignored, the last of a repeated key counts.
"""

from fast_stdlib import json
from fast_stdlib.typing import TYPE_CHECKING, Callable, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

from .errors import CniError, Code

T = TypeVar("T")
Decoder = Callable[[object, str], T]
"""Turns a JSON value, found at a path, into a T; raises `expected(...)` if it cannot."""

Tolerate = Callable[[CniError], object]
"""Is told of a key that cannot be read, where the record does without it."""

_REQUIRED: Final = object()
_DEFAULT: Final = object()
UNKNOWN: Final = object()
"""For `unreadable`: reading the attribute raises the CniError."""
REFUSED: Final = object()
"""For `unreadable`: the record cannot be decoded without the key."""
_ABSENT: Final = object()
_PLAIN: Final = (str, int, float)


def rendered(value: object, limit: int = 120) -> str:
    """Return `value` as the JSON it came from, cut to `limit` characters, for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        # json.loads ran further up the stack: json.dumps may reach the recursion limit here.
        text = f"{type(value).__name__} nested too deeply"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def expected(what: str, value: object, path: str) -> CniError:
    """Return the error for a value that is not `what` (SPEC.md section 5, code 7)."""
    return CniError(Code.INVALID_CONFIG, f"{path}: expected {what}, got {rendered(value)}")


class _Field:
    """One declared key of a record."""

    __slots__ = ("decode", "default", "key", "name", "unreadable")

    def __init__(self, decode: Decoder[object], key: str, default: object, unreadable: object) -> None:
        self.decode = decode
        self.key = key
        self.default = default
        self.unreadable = UNKNOWN if default is _REQUIRED else unreadable
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if not self.key:
            first, *rest = name.split("_")
            self.key = first + "".join(word.capitalize() for word in rest)

    def absent(self) -> object:
        """Return the value of a missing key that is not required."""
        return self.default() if callable(self.default) else self.default

    def read(self, value: object, path: str, tolerate: Tolerate) -> object:
        """Return the value that was found, or the error of one that the record does without. Raises CniError.

        A nested record is as tolerant as the one around it.
        """
        nested = getattr(self.decode, "__self__", None)
        try:
            if isinstance(nested, type) and issubclass(nested, Record):
                return nested.decode(value, path, tolerate=tolerate)
            return self.decode(value, path)
        except CniError as error:
            if self.unreadable is REFUSED:
                raise
            return error


def field(decode: Decoder[T], key: str = "", *, default: object = _REQUIRED, unreadable: object = _DEFAULT) -> T:
    """Declare a key of a record: how it is read, its name in JSON, and its value when absent.

    `key` is the attribute's name in camelCase unless given. A callable
    `default` is called for each record (`default=list`). `unreadable` is the
    value for DEL and GC when theirs cannot be read: the default unless given.
    UNKNOWN is for keys that say where state is: reading the attribute raises
    the CniError then, as it does for a required key.
    """
    return cast("T", _Field(cast("Decoder[object]", decode), key, default, unreadable))


def joined(path: str, key: str) -> str:
    """Return the path of `key` inside `path`, as error messages spell it."""
    return f"{path}.{key}" if path else key


@dataclass_transform(field_specifiers=(field,), kw_only_default=True, eq_default=True)
class Record:
    """Base of all typed JSON objects."""

    _fields: ClassVar[dict[str, _Field]] = {}
    """By key in lower case; subclasses inherit and may redeclare."""
    _required: ClassVar[list[_Field]] = []
    _made: ClassVar[dict[str, Callable[[], object]]] = {}
    """The functions that make a default for each record, by the field's name."""
    _defaults: ClassVar[dict[str, object]] = {}
    """The defaults of the other fields by name, in the order of all."""

    def __init_subclass__(cls) -> None:
        inherited = {known.name: known for known in cls._fields.values()}
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        cls._fields = {known.key.lower(): known for known in (inherited | declared).values()}
        cls._required = [known for known in cls._fields.values() if known.default is _REQUIRED]
        cls._made = {known.name: known.default for known in cls._fields.values() if callable(known.default)}
        cls._defaults = {known.name: known.default for known in cls._fields.values()}
        cls._defaults |= dict.fromkeys([*cls._made, *(known.name for known in cls._required)], _ABSENT)
        for name in declared:
            # An instance without the attribute must fail, not show the declaration.
            delattr(cls, name)

    def __init__(self, **values: object) -> None:
        if unknown := values.keys() - self._defaults.keys():
            message = f"{type(self).__name__} has no field {', '.join(sorted(unknown))}"
            raise TypeError(message)
        self.__dict__ = self._defaults | values
        self._complete(type(self).__name__)

    @classmethod
    def decode(cls, value: object, path: str = "", *, tolerate: Tolerate | None = None) -> Self:
        """Read a record from a JSON object found at `path`.

        Raises CniError (7) that names the path, the expected value and the present one. With `tolerate` it does so only
        if `value` is no object: `tolerate` gets the error of each other key, which has its `unreadable` value.
        """
        if not isinstance(value, dict):
            raise expected("an object", value, path or "configuration")
        values = cls._defaults.copy()
        before = f"{path}." if path else ""
        for key, item in value.items():
            known = cls._fields.get(key.lower())
            if known is not None and item is not None:
                place = before + known.key
                values[known.name] = (
                    known.decode(item, place) if tolerate is None else known.read(item, place, tolerate)
                )
        record = cls.__new__(cls)
        record.__dict__ = values
        if tolerate is not None:
            record._do_without(tolerate)  # noqa: SLF001 -- a method of this class
        record._complete(path)  # noqa: SLF001 -- as above
        return record

    def _complete(self, path: str) -> None:
        """Set the keys that are missing. Raises CniError (7) for one that is required."""
        values = self.__dict__
        for known in self._required:
            if values.get(known.name) is _ABSENT:
                raise CniError(Code.INVALID_CONFIG, f"{joined(path, known.key)}: required key is missing")
        for name, make in self._made.items():
            if values.get(name) is _ABSENT:
                values[name] = make()

    def _do_without(self, tolerate: Tolerate) -> None:
        """Tell of each key that could not be read: its value is the error until now."""
        for known in self._fields.values():
            value = self.__dict__[known.name]
            if isinstance(value, CniError):
                tolerate(value)
                if known.unreadable is UNKNOWN:
                    self.mark_unreadable(known.name, value)
                else:
                    setattr(self, known.name, known.absent() if known.unreadable is _DEFAULT else known.unreadable)

    def mark_unreadable(self, name: str, error: CniError) -> None:
        """Have reading the attribute `name` raise `error` from now on."""
        self.__dict__.pop(name, None)
        self.__dict__.setdefault("_flaws", {})[name] = error

    if not TYPE_CHECKING:  # or every misspelt attribute would have a type

        def __getattr__(self, name: str) -> object:
            """Raise the error of a key that could not be read."""
            flaws = self.__dict__.get("_flaws", {})
            if name in flaws:
                raise flaws[name]
            raise AttributeError(name, name=name, obj=self)

    def encode(self) -> dict[str, object]:
        """Return the JSON object: every key that is not at its default when that default is empty."""
        encoded = {}
        for known in self._fields.values():
            value = getattr(self, known.name)
            if value is None or (not value and known.default is not _REQUIRED and value == known.absent()):
                continue
            encoded[known.key] = value if isinstance(value, _PLAIN) else _plain(value)
        return encoded

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # mutable, as lists are

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def _plain(value: object) -> object:
    """Return `value` in JSON's own types; addresses and networks become strings."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, Record):
        return value.encode()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return str(value)
