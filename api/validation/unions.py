"""Objects of which exactly one field must be set: volumes and handlers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from api.errors import FieldError, forbidden, required
from api.object import V1Object

Judge = Callable[[Any, str], Iterator[FieldError]]
"""Judges the member that is set, which is at a path."""


def union_flaws(described: V1Object, path: str, kind: str, members: Mapping[str, Judge]) -> Iterator[FieldError]:
    """Judge an object at `path` that has exactly one of the `members`; `kind` is the API server's word for them."""
    present = [name for name in members if getattr(described, name) is not None]
    if not present:
        yield required(path, f"must specify a {kind}")
    for name in present:
        place = f"{path}.{described.key_of(name)}"
        if name != present[0]:
            yield forbidden(place, f"may not specify more than 1 {kind}")
        else:
            yield from members[name](getattr(described, name), place)
