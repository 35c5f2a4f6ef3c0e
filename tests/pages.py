"""The commands that the pages of the documentation tell to type."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?$")
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
"""Every page of the documentation."""


def commands(page: str) -> list[str]:
    """What stands after a root shell's prompt in the `console` blocks of a page, with the here documents."""
    blocks: list[str] = _BLOCK.findall((ROOT / page).read_text())
    return [command for block in blocks for command in _typed(iter(block.splitlines()))]


def _typed(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("# "):  # output of the command before
            continue
        typed = [line.removeprefix("# ")]
        if here := _HERE_DOCUMENT.search(line):
            typed += iter(lines.__next__, here[1])
            typed.append(here[1])
        yield "\n".join(typed)
