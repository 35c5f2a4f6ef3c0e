"""The base of the Kubernetes API's objects: a class is the one description of a type.

    class V1ContainerPort(V1Object):
        name: str = field(default="", rule=port_name_flaws)
        container_port: Int32 = field(default=0, required=True, rule=Between(1, 65535))
        host_ip: str = ""
        protocol: str = field(default="", fill="TCP", required=True, one_of=("SCTP", "TCP", "UDP"))

Annotations and defaults say how an object is read and written; keys are the attributes' names in camelCase. `field`
adds the API server's default (`fill`) and the rules for the field alone. `_union` names fields of which exactly one is
set. Other rules that need several fields stand in `api.validation`.

Keys are read as the API server reads them with `fieldValidation=Strict`: their case matters, and an unknown one is
noted with its path. `null` is absent.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast, dataclass_transform

from api.errors import DecodeError, FieldError, flaws_at, forbidden, not_supported, required
from api.values import Decoder, decoder_of, expected, string

T = TypeVar("T")

_ABSENT: Final = object()
_UNKNOWN: Final = "_unknown"
_INITIALISMS: Final = {"fqdn": "FQDN", "id": "ID", "ip": "IP", "ipc": "IPC", "ips": "IPs", "pid": "PID"}
"""Words of a key that are written so unless they come first."""


class Field(NamedTuple):
    """A field of a type; the attributes that `field` takes are described there."""

    default: object
    fill: object = None
    always: bool = False
    required: bool | str = False
    one_of: tuple[str, ...] = ()
    rule: Callable[[Any], list[str]] | None = None
    rules_empty: bool = False
    name: str = ""
    """The name of the attribute."""

    key: str = ""
    """The name in JSON."""

    read: Decoder[Any] = string

    def is_empty(self, value: object) -> bool:
        """Tell whether a value is none: 0, false and "" are values if the default is None."""
        return value is None or (not value and self.default is not None)

    def flaws(self, value: object, path: str) -> list[FieldError]:
        """Judge the value of the field, which is at `path`; a rule for a list holds for each item."""
        if self.is_empty(value) and not self.rules_empty:
            return [required(path, self.required if isinstance(self.required, str) else "")] if self.required else []
        if self.one_of:
            return [] if value in self.one_of else [not_supported(path, str(value), self.one_of)]
        if self.rule is None:
            return []
        if isinstance(value, list):
            return [flaw for index, item in enumerate(value) for flaw in flaws_at(f"{path}[{index}]", item, self.rule)]
        return flaws_at(path, value, self.rule)


def field(
    *,
    default: T,
    fill: T | None = None,
    always: bool = False,
    required: bool | str = False,
    one_of: tuple[str, ...] = (),
    rule: Callable[[Any], list[str]] | None = None,
    rules_empty: bool = False,
) -> T:
    """Describe a field beyond its type and its value when absent.

    `fill` is the API server's default. A field that is `always` there is written even if it is empty. `required` may be
    the detail of the error for an empty value. A value is `one_of` some words, in the order of the API server's error,
    or has the flaws that `rule` returns; `rules_empty` asks `rule` for an empty value, too.
    """
    return cast("T", Field(default, fill, always, required, one_of, rule, rules_empty))


@dataclass_transform(field_specifiers=(field,), kw_only_default=True)
class V1Object:
    """Base of the API's objects. A field without a default is required, by the constructor and by `decode`."""

    _ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys that the API knows and that have no effect on a node without API server and scheduler."""
    _refused: ClassVar[dict[str, str]] = {}
    """Keys that the API knows and this node cannot follow, each with the reason."""
    _union: ClassVar[tuple[str, ...]] = ()
    """The API server's word for fields of which exactly one is set, and the names of their attributes."""
    _fields: ClassVar[dict[str, Field]] = {}
    """By key; subclasses inherit and may redeclare."""
    _named: ClassVar[dict[str, Field]] = {}
    """The same by the name of the attribute."""
    _defaults: ClassVar[dict[str, object]] = {}
    _made: ClassVar[list[Field]] = []
    """The fields whose default is made for each object, or that have none."""
    _filled: ClassVar[list[Field]] = []
    _judged: ClassVar[list[str]] = []
    """The names of fields with rules."""

    def __init_subclass__(cls) -> None:
        named = dict(cls._named)
        for name, annotation in cls.__annotations__.items():
            if name.startswith("_"):
                continue
            given = vars(cls).get(name, _ABSENT)
            described = given if isinstance(given, Field) else Field(given, always=given is _ABSENT)
            first, *rest = name.split("_")
            key = first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)
            named[name] = described._replace(name=name, key=key, read=decoder_of(annotation))
            if given is not _ABSENT:
                delattr(cls, name)  # an object without the attribute must fail, not show the default
        cls._named = named
        cls._fields = {known.key: known for known in named.values()}
        cls._made = [each for each in named.values() if isinstance(each.default, list | dict | V1Object)]
        cls._made += [each for each in named.values() if each.default is _ABSENT]
        cls._judged = [name for name, each in named.items() if each.required or each.one_of or each.rule]
        cls._filled = [each for each in named.values() if each.fill is not None]
        cls._defaults = {known.name: known.default for known in named.values()}
        cls._defaults.update((known.name, _ABSENT) for known in cls._made)

    def __init__(self, **values: object) -> None:
        if unknown := values.keys() - self._defaults.keys():
            message = f"{type(self).__name__} has no field {', '.join(sorted(unknown))}"
            raise TypeError(message)
        self.__dict__ = self._completed(self._defaults | values, type(self).__name__)

    @classmethod
    def decode(cls, value: object, path: str = "") -> Self:
        """Read an object found at `path`, and note its unknown keys for `take_unknown_fields`.

        Raises DecodeError that names the path and the value, also for a key that this node cannot follow.
        """
        if not isinstance(value, dict):
            raise expected("an object", value, path or "manifest")
        if not cls._refused.keys().isdisjoint(value):
            for key, item in value.items():
                if key in cls._refused and item is not None:
                    raise DecodeError(f"{joined(path, key)}: Forbidden: {cls._refused[key]}")
        values, fields = cls._defaults.copy(), cls._fields
        unknown = []
        for key, item in value.items():
            known = fields.get(key)
            if known is None:
                if key not in cls._ignored and key not in cls._refused:
                    unknown.append(joined(path, key))
            elif item is not None:
                values[known.name] = known.read(item, f"{path}.{key}" if path else key)
        decoded = cls.__new__(cls)
        decoded.__dict__ = cls._completed(values, path)
        if unknown:
            values[_UNKNOWN] = unknown
        return decoded

    @classmethod
    def _completed(cls, values: dict[str, object], path: str) -> dict[str, object]:
        """Return the values with new lists and objects for absent ones. Raises DecodeError."""
        for known in cls._made:
            if values[known.name] is _ABSENT:
                if known.default is _ABSENT:
                    raise DecodeError(f"{joined(path, known.key)}: required key is missing")
                values[known.name] = type(known.default)()
        return values

    def encode(self) -> dict[str, object]:
        """Return the JSON object: every key that is not at its default when that default is empty."""
        encoded, values = {}, self.__dict__
        for name, known in self._named.items():
            value = values[name]
            if value is not None and (value or known.always or value != known.default):
                encoded[known.key] = _mapped(value, V1Object.encode)
        return encoded

    def copy(self, *, fill: bool = False) -> Self:
        """Return a deep copy; `fill` puts the API server's defaults into empty fields."""
        values = {name: _mapped(value, lambda each: each.copy(fill=fill)) for name, value in self.__dict__.items()}
        if fill:
            values.update((each.name, each.fill) for each in self._filled if each.is_empty(values[each.name]))
        copied = self.__new__(type(self))
        copied.__dict__ = values
        return copied

    @classmethod
    def key_of(cls, name: str) -> str:
        """Return the key of an attribute."""
        return cls._named[name].key

    def members(self) -> list[str]:
        """Return the attributes of the union that are set."""
        return [name for name in self._union[1:] if getattr(self, name) is not None]

    def flaws(self, path: str, *names: str) -> Iterator[FieldError]:
        """Judge fields by their description, in the order of `names`, or all in the order of the class.

        All begin with the union: its first member is judged, and no other one may be set. No other object is judged.
        """
        if self._union and not names:
            yield from self._union_flaws(path)
        for name in names or self._judged:
            known = self._named[name]
            yield from known.flaws(getattr(self, name), joined(path, known.key))

    def _union_flaws(self, path: str) -> Iterator[FieldError]:
        members, word = self.members(), self._union[0]
        if not members:
            yield required(path, f"must specify a {word}")
        for name in members[:1]:
            yield from getattr(self, name).flaws(f"{path}.{self.key_of(name)}")
        for name in members[1:]:
            yield forbidden(f"{path}.{self.key_of(name)}", f"may not specify more than 1 {word}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # mutable, as lists are

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def take_unknown_fields(decoded: object) -> list[str]:
    """Return the paths of the unknown keys that were read into `decoded`, and forget them."""
    if isinstance(decoded, list):
        return [path for item in decoded for path in take_unknown_fields(item)]
    if isinstance(decoded, dict):
        return [path for item in decoded.values() for path in take_unknown_fields(item)]
    if not isinstance(decoded, V1Object):
        return []
    own: list[str] = vars(decoded).pop(_UNKNOWN, [])
    return own + [path for item in vars(decoded).values() for path in take_unknown_fields(item)]


def joined(path: str, key: str) -> str:
    """Return the path of `key` inside `path`, as error messages spell it."""
    return f"{path}.{key}" if path else key


def _mapped(value: object, change: Callable[[V1Object], object]) -> object:
    """Return a value with each object in it changed; lists and dictionaries are new."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, V1Object):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value
