"""Writes the tables of docs/conformance-effects.md, which are made from effects.yaml and the catalogue of checks.

`python -m tools.conformance_effects` writes the page. Each table stands below its heading.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.conformance.catalogue import AnyCheck
from harness.conformance.checks import all_checks
from harness.conformance.report.markdown import table
from harness.conformance.runtime_checks.catalogue import runtime_checks
from harness.conformance.sentences import Level
from harness.conformance.threshold import Side, effects, without_effect

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "conformance-effects.md"
_TABLE: Final = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)


def _effects_table(side: Side, found: Sequence[AnyCheck]) -> Iterator[str]:
    known = {check.id: check for check in found}
    rows = ([effect.kind, f"`{name}`", str(known[name].level), effect.words] for name, effect in effects(side).items())
    yield from table(["effect", "check", "level", "if it fails"], rows)


def _others_table(side: Side, found: Sequence[AnyCheck], *, must: bool) -> Iterator[str]:
    known = {check.id: check for check in found if (check.level is Level.MUST) is must}
    rows = ([f"`{name}`", str(known[name].level), why] for name, why in without_effect(side).items() if name in known)
    yield from table(["check", "level", "why nothing happens if it fails"], rows)


def tabled(page: str) -> str:
    """Return the page with the present tables. Raises ValueError if one has no place in it."""
    of_plugins, of_runtimes = all_checks(), runtime_checks()
    tables = {
        "Plugins: failures with an effect": _effects_table("plugins", of_plugins),
        "Plugins: each MUST by its letter": _others_table("plugins", of_plugins, must=True),
        "Plugins: told only": _others_table("plugins", of_plugins, must=False),
        "Runtimes: failures with an effect": _effects_table("runtimes", of_runtimes),
        "Runtimes: told only": _others_table("runtimes", of_runtimes, must=False),
    }
    for title, lines in tables.items():
        before, heading, section = page.partition(f"\n## {title}\n")
        place = _TABLE.search(section)
        if not heading or not place:
            raise ValueError(f"no place for the table {title}")
        text = "".join(f"{line}\n" for line in lines)
        page = before + heading + section[: place.start()] + text + section[place.end() :]
    return page


if __name__ == "__main__":
    PAGE.write_text(tabled(PAGE.read_text()))
