"""Writes the drawings of docs/life-cycles.md, which are made from the tables of the code.

`python -m tools.life_cycles` writes the page. A drawing stands below the heading of its life cycle, in a block of the
kind `mermaid`.
"""

import re
from pathlib import Path
from typing import Final

from harness.containerd.container_states import CONTAINER_LIFE
from harness.kubelet.sync.pod_states import POD_LIFE
from harness.runtime.sandbox_life import SANDBOX_LIFE

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "life-cycles.md"
_BLOCK: Final = re.compile(r"^```mermaid\n(?:.*\n)*?```\n", re.MULTILINE)
_DRAWINGS: Final = {
    "Pod worker": POD_LIFE.drawing(),
    "Sandbox": SANDBOX_LIFE.drawing(),
    "Container": CONTAINER_LIFE.drawing(),
}


def drawn(page: str) -> str:
    """Return the page with the present drawings. Raises ValueError if one has no place in it."""
    for title, drawing in _DRAWINGS.items():
        before, heading, section = page.partition(f"\n## {title}\n")
        section, count = _BLOCK.subn(f"```mermaid\n{drawing.rstrip()}\n```\n", section, count=1)
        if not heading or not count:
            raise ValueError(f"no place for the drawing of {title}")
        page = before + heading + section
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
