"""The violations that count as failures, by the level of a check or by the effect of its violation.

A check that counts fails; any other is a warning. So the exit code and all reports say the same. effects.yaml lists the
checks whose failure has an effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from harness.conformance.sentences import Level, read_yaml

Side = Literal["plugins", "runtimes"]
_NONE: Final = "none"


class FailOn(StrEnum):
    """Which failures count, the fewest first: each word has those of the words before it, too."""

    MUST = "MUST"
    WORKS = "works"
    """Every MUST, and each check whose failure has an effect."""
    SHOULD = "SHOULD"
    MAY = "MAY"
    CONVENTION = "CONVENTION"


class Effect(NamedTuple):
    """The effect of a violation on pods, the node or the runtime: its kind, and a description."""

    kind: str
    words: str


@cache
def effects(side: Side = "plugins") -> Mapping[str, Effect]:
    """Return the effects of failures by the ID of the check, of plugins or of runtimes, in the order of their kinds."""
    kinds = {kind: checks for kind, checks in _table()[side].items() if kind != _NONE}
    return MappingProxyType({name: Effect(kind, words) for kind, each in kinds.items() for name, words in each.items()})


def without_effect(side: Side = "plugins") -> Mapping[str, str]:
    """Return, by the ID of the check, why its failure has no effect."""
    return _table()[side][_NONE]


@cache
def _table() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = read_yaml(
        Path(__file__).with_name("effects.yaml").read_text(encoding="utf-8")
    )
    return found


_ORDER: Final = list(FailOn)
_LEVELS: Final = list(Level)


@dataclass(frozen=True)
class Threshold:
    """Tells which failures count. Of levels that are not examined none does: `level` is the least binding one."""

    fail_on: FailOn = FailOn.WORKS
    level: Level = Level.CONVENTION

    def examines(self, level: Level) -> bool:
        """Tell whether checks of this level are examined."""
        return _LEVELS.index(level) <= _LEVELS.index(self.level)

    def counts(self, check: str, level: Level, side: Side = "plugins") -> bool:
        """Tell whether a failure of the check of this ID and level counts."""
        if not self.examines(level):
            return False
        needed = FailOn.WORKS if check in effects(side) else FailOn.CONVENTION
        return _ORDER.index(min(FailOn(level), needed, key=_ORDER.index)) <= _ORDER.index(self.fail_on)


DEFAULT_THRESHOLD: Final = Threshold()
