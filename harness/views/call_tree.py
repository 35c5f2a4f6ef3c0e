"""The call tree of a trace, printed while it happens; its JSON documents are indented and coloured."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.output import json_escape, printable, shortened
from harness.trace_recorder import SpanEvent
from skel.spans import Span

_STREAMS: Final = ("stdin", "stdout", "stderr")
_HIDDEN: Final = frozenset({*_STREAMS, "exit_code", "plugin_pid", "reports_steps", "messages"})
"""Attributes that are shown in another way, or not at all."""
_FOR_PROGRAMS: Final = frozenset({"CNI_NETNS", "CNI_ARGS", "CNI_PATH", "folder"})
"""Attributes that only the whole tree has."""
_PROMPTLY_S: Final = 0.02
_LONGEST: Final = 160
"""Characters of one attribute in a line of the tree."""

_TOKEN: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>true|false|null)|'
    r"(?P<number>-?\d[\d.eE+-]*)"
)
_COLOURS: Final = {"key": "blue", "text": "green", "word": "magenta", "number": "cyan"}


def duration(nanoseconds: int) -> str:
    """Return a time in milliseconds with two digits that count, or in seconds."""
    milliseconds = nanoseconds / 1e6
    if milliseconds >= 1000:  # noqa: PLR2004 -- a second
        return f"{milliseconds / 1000:.2f} s"
    if milliseconds >= 100:  # noqa: PLR2004 -- then decimals are noise
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 1 else f"{milliseconds:.2f} ms"


@dataclass(eq=False)
class _Open:
    """A span that has not been closed in the tree."""

    span: Span
    depth: int
    stdin: str
    """What the innermost plugin around it got."""
    is_printed: bool = False


class TreePrinter:
    """Prints the lines of a tree for each event of `TraceRecorder`; `write` gets one or more lines.

    A span without children is one line, printed at its end. Another one is printed when its first child begins, or at
    once if it may last; a line with its time closes it. Threads that work at the same time have a column of their own.
    The documents that plugins get and print are a part of the tree if it is `whole`.
    """

    def __init__(self, write: Callable[[str], object], *, colour: bool, whole: bool = True) -> None:
        self.notes: dict[str, str] = {}
        """Words for the line that ends a span, by the span's ID."""
        self.messages: Counter[str] = Counter()
        """The numbers of messages to the kernel inside of open spans that have no line of their own, by spans' IDs."""
        self._write = write
        self._colour = colour
        self._hidden = _HIDDEN if whole else _HIDDEN | _FOR_PROGRAMS
        self._is_whole = whole
        self._threads: dict[int, list[_Open]] = {}
        self._depths: dict[str, int] = {}
        self._width = 0
        self._lines: list[str] = []
        self._written_s = 0.0

    def __call__(self, event: SpanEvent) -> None:
        """Print what an event adds to the tree."""
        if event.begins:
            self._begin(event)
        else:
            self._end(event.span)
        # Many short steps are written together; each write costs as much as the step.
        if event.waits or time.monotonic() - self._written_s > _PROMPTLY_S:
            self._flush()

    def finish(self) -> None:
        """Close all spans that are still open, as those of a plugin that was killed."""
        for stack in self._threads.values():
            while stack:
                self._close(stack)
        self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._write("\n".join(self._lines))
            self._lines.clear()
        self._written_s = time.monotonic()

    def _begin(self, event: SpanEvent) -> None:
        span = event.span
        stack = self._threads.setdefault(span.thread, [])
        while stack and stack[-1].span.span_id != span.parent_id and self._is_below(stack, span.parent_id):
            self._close(stack)
        if stack:
            self._print(stack, stack[-1])
        depth = stack[-1].depth + 1 if stack else self._depths.get(span.parent_id, -1) + 1
        self._depths[span.span_id] = depth
        stdin = stack[-1].stdin if stack else ""
        opened = _Open(span, depth, stdin)
        stack.append(opened)
        if event.waits:
            self._print(stack, opened)

    @staticmethod
    def _is_below(stack: list[_Open], span_id: str) -> bool:
        return any(each.span.span_id == span_id for each in stack)

    def _end(self, span: Span) -> None:
        stack = self._threads.get(span.thread, [])
        if self._is_below(stack, span.span_id):
            while stack[-1].span is not span:
                self._close(stack)
            has_inner = stack[-1].is_printed
            self._close(stack)
            if has_inner and len(stack) <= 1:  # the result of the verb may follow on stdout
                self._flush()

    def _close(self, stack: list[_Open]) -> None:
        opened = stack.pop()
        span = opened.span
        self._depths.pop(span.span_id, None)
        taken = self._time(span)
        if not opened.is_printed:
            outputs = list(self._streams(opened, _STREAMS))
            self._line(span, opened.depth, f"{self._heading(span)}  {taken}")
            self._line(span, opened.depth + 1, *outputs, sign="│ ")
            return
        self._line(span, opened.depth + 1, *self._streams(opened, _STREAMS[1:]), sign="│ ")
        self._line(span, opened.depth + 1, f"{self._style(span.name, dim=True)}  {taken}", sign="└ ")

    def _print(self, stack: list[_Open], opened: _Open) -> None:
        """Print the beginning of a span, and of those around it, unless that has been done."""
        if opened.is_printed:
            return
        for outer in stack[: stack.index(opened)]:
            self._print(stack, outer)
        opened.is_printed = True
        self._line(opened.span, opened.depth, self._heading(opened.span))
        self._line(opened.span, opened.depth + 1, *self._streams(opened, _STREAMS[:1]), sign="│ ")

    def _streams(self, opened: _Open, names: tuple[str, ...]) -> Iterator[str]:
        for name in names if self._is_whole else ():
            text = str(opened.span.attributes.get(name, ""))
            if not text:
                continue
            if name == "stdin" and text == opened.stdin:
                yield f"{name}  the same"
                continue
            lines = coloured(text, colour=self._colour)
            if lines:
                yield f"{name}  {lines[0]}"
                yield from (f"  {line}" for line in lines[1:])
            if name == "stdin":
                opened.stdin = text

    def _heading(self, span: Span) -> str:
        words = [self._style(printable(span.name), bold=True)]
        if span.name == "PluginMain":
            words.append(f"pid {span.pid}")
        for key, value in span.attributes.items():
            if key in self._hidden or value in ("", []):
                continue
            if span.name == "PluginMain" and key.startswith("CNI_"):  # its execution's, a few lines above
                continue
            text = "; ".join(value) if isinstance(value, list) else str(value)
            words.append(self._pair(key, printable(shortened(text.replace("\n", " ")))))
        return "  ".join(words)

    def _pair(self, key: str, text: str) -> str:
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}…"
        if key in {"path", "doing", "plugin", "network", "pod"}:
            return text
        return f"{self._style(f'{key}=', dim=True)}{text}"

    def _time(self, span: Span) -> str:
        words = [duration(span.end_ns - span.start_ns) if span.end_ns else "did not end"]
        if "exit_code" in span.attributes:
            words.append(f"exit {span.attributes['exit_code']}")
        if span.attributes.get("reports_steps") is False:
            words.append(f"({Path(str(span.attributes.get('path', 'it'))).name} reports no inner steps)")
        if span.error:
            words.append(self._style(printable(" ".join(span.error.split())), fg="red"))
        elif not span.end_ns:
            words[0] = self._style(words[0], fg="red")
        if number := self.messages.pop(span.span_id, 0):
            words.insert(0, f"{number} message{'s' if number > 1 else ''} to the kernel")
        return "  ".join([*filter(None, [self.notes.pop(span.span_id, "")]), *words])

    def _line(self, span: Span, depth: int, *lines: str, sign: str = "├ ") -> None:
        if not lines:
            return
        self._width = max(self._width, len(span.track))
        column = f"{span.track:<{self._width}}  " if self._width else ""
        before = column + (self._style(f"{'│ ' * (depth - 1)}{sign}", dim=True) if depth else "")
        self._lines += [before + line for line in lines]

    def _style(self, text: str, **styles: bool | str) -> str:
        return click.style(text, **styles) if self._colour and text else text  # type: ignore[arg-type]


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
