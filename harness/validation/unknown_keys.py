"""Warnings for a key of a configuration that no plugin reads."""

from collections.abc import Collection
from typing import Final

from skel.record import rendered

_COMMENT_PREFIXES: Final = ("$", "_", "//")
"""Keys with these prefixes are comments, or for editors (`$schema`)."""


def unknown_key(key: str, value: object, known: Collection[str]) -> str:
    """Return a line for a key that is not among `known`, with the most similar known key; "" for a comment."""
    from difflib import get_close_matches  # for a mistyped key alone

    if key.startswith(_COMMENT_PREFIXES):
        return ""
    spelling = {name.casefold(): name for name in known}
    meant = get_close_matches(key.casefold(), spelling, n=1)
    hint = f'; did you mean "{spelling[meant[0]]}"?' if meant else ""
    return f"unknown key, its value is {rendered(value)}{hint}"
