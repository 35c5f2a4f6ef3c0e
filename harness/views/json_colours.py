"""JSON documents for a terminal: indented, coloured, and harmless whatever a plugin has printed."""

import json
import re
from typing import Final

import click

from harness.output import json_escape, printable

_TOKEN: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>true|false|null)|'
    r"(?P<number>-?\d[\d.eE+-]*)"
)
_COLOURS: Final = {"key": "blue", "text": "green", "word": "magenta", "number": "cyan"}


def coloured(document: str, *, colour: bool) -> list[str]:
    """Return the lines of a stream: indented and coloured if it is JSON, otherwise as they are."""
    try:
        decoded = json.loads(document)
    except (ValueError, RecursionError):
        return [printable(line) for line in document.splitlines()]
    lines = json.dumps(decoded, indent=2, ensure_ascii=False).split("\n")
    escaped = [json_escape(line) for line in lines]
    return [_TOKEN.sub(_paint, line) for line in escaped] if colour else escaped


def _paint(token: re.Match[str]) -> str:
    return click.style(token[0], fg=_COLOURS[token.lastgroup or "text"])
