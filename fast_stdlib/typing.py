"""`typing` and `collections.abc` for modules that a plugin's process imports.

Loading `typing` takes 2 ms and each NamedTuple 0.2 ms; loading `collections.abc` takes 1.5 ms, because `collections`
comes with it. Type checkers see the real modules. At run time the names that only annotations use are stand-ins, and
`NamedTuple` is a small class of this module. An annotation may be any expression that Python can evaluate. An
annotation with a ParamSpec is a string.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
    from typing import (
        Any,
        ClassVar,
        Final,
        Generic,
        NamedTuple,
        NoReturn,
        ParamSpec,
        Protocol,
        Self,
        TextIO,
        TypeVar,
        cast,
        dataclass_transform,
    )
else:
    # `os` has loaded this module; loading `collections.abc` loads `collections`, too (1.5 ms).
    from _collections import _tuplegetter
    from _collections_abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    GenericAlias = type(list[int])

    # Annotations subscript this and join it with `|`, which a class allows.
    Any = Final = NoReturn = Protocol = Self = TextIO = object
    ClassVar = type

    class TypeVar:
        """A parameter of a generic type."""

        __slots__ = ()

        def __init__(self, name, *constraints, bound=None):
            """Ignore the name and all options."""

        def __typing_subst__(self, given):
            """Return the argument that replaces this parameter in a subscripted generic type."""
            return given

        def __or__(self, other):
            return self

        __ror__ = __or__

    ParamSpec = TypeVar

    def cast(kind, value):
        """Return the value."""
        return value

    def dataclass_transform(**settings):
        """Return a decorator that does nothing."""
        return lambda cls: cls

    class Generic:
        """A class with type parameters."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    class NamedTuple(tuple):  # noqa: SLOT001 -- its subclasses have no slots either
        """A tuple whose items have names: the annotated names of a subclass, with their defaults."""

        _fields = ()
        _field_defaults = {}

        def __init_subclass__(cls):
            if not cls.__annotations__:
                return  # the subclass adds only methods
            cls._fields = tuple(cls.__annotations__)
            cls._field_defaults = {name: vars(cls)[name] for name in cls._fields if name in vars(cls)}
            cls.__match_args__ = cls._fields
            for index, name in enumerate(cls._fields):
                setattr(cls, name, _tuplegetter(index, None))

        def __new__(cls, *values, **named):
            """Make a tuple of values in order, or by their names."""
            if named or len(values) != len(cls._fields):
                values = _completed(cls, values, named)
            return tuple.__new__(cls, values)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            items = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({items})"

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **named):
            return type(self)(**self._asdict() | named)

    def _completed(cls, values, named):
        """Return all items in order. Raises TypeError for an item that is missing, unknown or given twice."""
        if not values and tuple(named) == cls._fields:
            return named.values()
        given = dict(zip(cls._fields, values, strict=False))
        items = cls._field_defaults | given | named
        if len(values) > len(given) or given.keys() & named.keys() or items.keys() ^ set(cls._fields):
            message = f"{cls.__name__} takes {', '.join(cls._fields)}; got {values!r} and {named!r}"
            raise TypeError(message)
        return [items[name] for name in cls._fields]


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Callable",
    "ClassVar",
    "Collection",
    "Container",
    "Final",
    "Generic",
    "Iterable",
    "Iterator",
    "Mapping",
    "NamedTuple",
    "NoReturn",
    "ParamSpec",
    "Protocol",
    "Self",
    "Sequence",
    "TextIO",
    "TypeVar",
    "cast",
    "dataclass_transform",
]
