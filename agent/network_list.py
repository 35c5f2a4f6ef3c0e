"""The network list of a node, made of a template and the node's own ranges."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent.peers import Network

_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)\}")
_NAMES: Final = ("POD_CIDR", "POD_CIDR6", "MTU")
_SUFFIXES: Final = (".conf", ".conflist", ".json")


class TemplateError(ValueError):
    """A template that is no network list; the message is for users."""


class _AbsentError(Exception):
    """A part of the template names a value that the node lacks."""


def network_list(template: bytes, ranges: Sequence[Network], mtu: int) -> bytes:
    """Return the list as a file's content. Raises TemplateError.

    `${POD_CIDR}` is the first IPv4 range, `${POD_CIDR6}` the first IPv6 one, and `${MTU}` is in bytes. A string that is
    nothing but `${MTU}` becomes a number. An item of an array that names a range which the node lacks is left out, and
    so is an array that has only such items: one template serves nodes of one family and of both.
    """
    values: dict[str, str | int] = {"MTU": mtu}
    for each in reversed(ranges):
        values["POD_CIDR" if each.version == 4 else "POD_CIDR6"] = str(each)  # noqa: PLR2004 -- the version's number
    try:
        document = json.loads(template)
    except ValueError as error:
        raise TemplateError(f"not JSON: {error}") from None
    plugins = document.get("plugins") if isinstance(document, dict) else None
    if not isinstance(plugins, list) or not plugins:
        raise TemplateError("no network list: it has no array `plugins` with a plugin")
    try:
        # The arrays below may lack items; a list without one of its plugins would be another network.
        filled = {
            **_filled({**document, "plugins": None}, values),
            "plugins": [_filled(each, values) for each in plugins],
        }
    except _AbsentError as error:
        raise TemplateError(f"it needs {error}, and this node has no such range") from None
    return json.dumps(filled, indent=2).encode() + b"\n"


def lists_before(path: Path) -> list[str]:
    """Return the names of lists that runtimes take before this one: they use the first of their folder."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix in _SUFFIXES]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name < path.name)


def _filled(value: Any, values: Mapping[str, str | int]) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return _filled_items(value, values)
    return _filled_text(value, values) if isinstance(value, str) else value


def _filled_items(items: Sequence[Any], values: Mapping[str, str | int]) -> list[Any]:
    filled: list[Any] = []
    absent: _AbsentError | None = None
    for item in items:
        try:
            filled.append(_filled(item, values))
        except _AbsentError as error:
            absent = error
    if absent is not None and not filled:
        raise absent
    return filled


def _filled_text(text: str, values: Mapping[str, str | int]) -> str | int:
    for name in _PLACEHOLDER.findall(text):
        if name not in _NAMES:
            raise TemplateError(f"${{{name}}} is unknown; {', '.join(f'${{{each}}}' for each in _NAMES)} are known")
        if name not in values:
            raise _AbsentError(f"${{{name}}}")
    if text == "${MTU}":
        return values["MTU"]
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)
