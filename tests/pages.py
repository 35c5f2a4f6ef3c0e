"""The commands that the pages of the documentation tell to type, and the output that they show."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?$")
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
"""Every page of the documentation."""
_TRANSCRIPT: Final = re.compile(r"^( *)```text\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_DIFFERS: Final = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
    r"\bCNI-DN-[0-9a-f]{21}\b": "CHAIN",
    r"\b[0-9a-f]{12}([0-9a-f]{52}\b|…|\b)": "ID",
    r"\bveth[0-9a-f]{11}\b": "VETH",
    r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b": "MAC",
    r"\bfe80::\S+": "LINK-LOCAL",
    r"\d\d:\d\d:\d\d\.\d+": "CLOCK",
    r"\b\d+(\.\d+)? ?m?s\b": "TIME",
    r"@if\d+|\b(p?id:?) \d+": "NUMBER",
    r"\b\d+ (more\b|messages? to)": "COUNT",
    r" +": " ",
}
"""Patterns of words that differ from run to run, and widths of columns, each with its substitute."""


def commands(page: str) -> list[str]:
    """What stands after a root shell's prompt in the `console` blocks of a page, with the here documents."""
    blocks: list[str] = _BLOCK.findall((ROOT / page).read_text())
    return [command for block in blocks for command in _typed(iter(block.splitlines()))]


def outputs(page: str) -> list[tuple[str, list[str]]]:
    """Return each command of the `console` blocks of a page, with the lines of output that follow it.

    Here documents are not known.
    """
    found: list[tuple[str, list[str]]] = []
    for line in "".join(_BLOCK.findall((ROOT / page).read_text())).splitlines():
        if line.startswith("# "):
            found.append((line.removeprefix("# "), []))
        else:
            found[-1][1].append(line)
    return found


def _typed(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("# "):  # output of the command before
            continue
        typed = [line.removeprefix("# ")]
        if here := _HERE_DOCUMENT.search(line):
            typed += iter(lines.__next__, here[1])
            typed.append(here[1])
        yield "\n".join(typed)


def transcripts(page: str) -> list[str]:
    """Return the `text` blocks of a page, without the indentation of a list."""
    return [dedent(block) for _, block in _TRANSCRIPT.findall((ROOT / page).read_text())]


def prints_as_shown(shown: list[str], printed: str) -> bool:
    """Tell whether a command's output is that of a page.

    "…" in a line stands for any text, alone in a line for any lines. IDs, names of links and times may differ.
    """
    pattern = "".join("(?:.*\n)*" if line == "…" else _pattern(line) for line in shown)
    return re.fullmatch(pattern, _without_differences(printed)) is not None


def same_line(shown: str, printed: str) -> bool:
    """Tell whether a line of output is that of a page; IDs, names of links and times may differ."""
    return re.fullmatch(_pattern(shown), f"{_without_differences(printed)}\n") is not None


def _pattern(line: str) -> str:
    return re.escape(_without_differences(line)).replace("…", ".*") + " ?\n"


def _without_differences(text: str) -> str:
    for differs, substitute in _DIFFERS.items():
        text = re.sub(differs, substitute, text)
    return text
