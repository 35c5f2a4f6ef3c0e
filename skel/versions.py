"""Versions of the CNI specification: which there are and how they compare."""

from .errors import CniError, Code

SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
CURRENT = SUPPORTED[-1]

VERB_SINCE = {"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
"""The version that brought a verb; with CHECK came the previous result in DEL. The others are in all versions."""

REFERENCE_RELEASE = "1.9.0"
"""The release of containernetworking/plugins whose behaviour we offer; runtimes read it in the about line."""

_PARTS = 3
_DIGITS = 9
"""More than a version needs; int() gives up on a few thousand with an error of its own."""


def parse(version: str) -> tuple[int, int, int]:
    """Return `version` as three numbers; an empty one is 0.1.0, as configurations once had none.

    Raises CniError (6) for a text that is not one to three dotted numbers.
    """
    return _KNOWN.get(version) or _numbers(version)


def at_least(version: str, minimum: str) -> bool:
    """Tell whether `version` is `minimum` or a later one. Raises CniError (6)."""
    return parse(version) >= parse(minimum)


def _numbers(version: str) -> tuple[int, int, int]:
    parts = version.split(".")
    if len(parts) > _PARTS or not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise CniError(Code.DECODING_FAILURE, f'cniVersion: expected a version such as "{CURRENT}", got "{version}"')
    major, minor, patch = (*map(int, parts), 0, 0)[:_PARTS]
    return (major, minor, patch)


_KNOWN = {"": (0, 1, 0), **{version: _numbers(version) for version in SUPPORTED}}
"""The versions of almost all configurations: an ADD asks 14 times."""
