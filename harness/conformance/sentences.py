"""The sentences that bind a plugin or a runtime: SPEC.md 1.1.0, CONVENTIONS.md, and de facto expectations."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import yaml

from skel.versions import SUPPORTED, at_least

Document = Literal["SPEC.md", "CONVENTIONS.md", "skel", "runtimes"]
"""The source of a sentence: quoted from the first two; the library's and the runtimes' are in our words."""


class Level(StrEnum):
    """How binding a sentence is (RFC 2119), the most binding first; CONVENTION for everything outside of SPEC.md."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"
    CONVENTION = "CONVENTION"


Side = Literal["plugin", "runtime", "both"]

_VALUES = {"document": get_args(Document), "level": tuple(Level), "side": get_args(Side), "since": SUPPORTED}
_LEVELS = list(product(SUPPORTED, Level))
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Sentence(NamedTuple):
    """One sentence. `section` is its heading; `why_not` is the reason why no check can enforce it, or empty.

    `since` is the first version of SPEC.md that demands this, empty for a sentence that holds in all versions.
    `weaker` has the earlier versions that demand it less bindingly, the first one first.
    Sentences about runtimes are enforced by the checks of `harness.conformance.runtime_checks`.
    """

    id: str
    document: Document
    section: str
    text: str
    level: Level
    side: Side
    why_not: str = ""
    since: str = ""
    weaker: tuple[tuple[str, Level], ...] = ()

    @property
    def checkable(self) -> bool:
        """Whether checks enforce it on a plugin."""
        return self.side != "runtime" and not self.why_not

    @property
    def levels(self) -> Sequence[tuple[str, Level]]:
        """The versions in which its level changes, the first one first, each with the level from then on."""
        return (*self.weaker, (self.since or SUPPORTED[0], self.level))

    def level_in(self, version: str) -> Level | None:
        """Return its level in a version of SPEC.md, None if that version does not demand it."""
        return next((level for since, level in reversed(self.levels) if at_least(version, since)), None)


@cache
def load() -> Mapping[str, Sentence]:
    """Return the sentences by id, in the order of their documents. Raises ValueError for a wrong entry."""
    return parse(Path(__file__).with_name("sentences.yaml").read_text(encoding="utf-8"))


def parse(text: str) -> Mapping[str, Sentence]:
    """Return the sentences of a YAML list of sections, by id. Raises ValueError, which names the wrong entry."""
    sentences: dict[str, Sentence] = {}
    for entry in _entries(text):
        sentence = _sentence(entry)
        if sentence.id in sentences:
            raise ValueError(f"sentence {sentence.id!r} is there twice")
        sentences[sentence.id] = sentence
    return MappingProxyType(sentences)


def read_yaml(text: str) -> Any:  # noqa: ANN401 -- as YAML has it
    """Return the document of a text in YAML."""
    # The loader in C needs a tenth of the time; not every PyYAML is built with it.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 -- either is a safe loader


def _entries(text: str) -> Iterator[Mapping[str, object]]:
    """Yield each sentence's fields, together with the fields of its section."""
    for section in read_yaml(text):
        match section:
            case {"sentences": [*entries], **shared}:
                yield from ({**shared, **entry} for entry in entries)
            case _:
                raise ValueError(f"a section is to have a list of sentences: {section!r}")


def _sentence(entry: Mapping[str, object]) -> Sentence:
    name = entry.get("id")
    if unknown := entry.keys() - set(Sentence._fields):
        raise ValueError(f"sentence {name!r} has the unknown fields {sorted(unknown)}")
    if missing := set(Sentence._fields) - Sentence._field_defaults.keys() - entry.keys():
        raise ValueError(f"sentence {name!r} lacks the fields {sorted(missing)}")
    texts = {field: value for field, value in entry.items() if field != "weaker"}
    for field, value in texts.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"sentence {name!r}: {field} is to be text, not {value!r}")
        if value not in _VALUES.get(field, (value,)):
            raise ValueError(f"sentence {name!r}: {field} is {value!r}, which is none of {', '.join(_VALUES[field])}")
    if not _ID.fullmatch(str(name)):
        raise ValueError(f"sentence {name!r}: its id is to be words with hyphens between")
    weaker = entry.get("weaker", {})
    if not isinstance(weaker, Mapping) or not all(pair in _LEVELS for pair in weaker.items()):
        raise ValueError(f"sentence {name!r}: weaker is to be levels by version, not {weaker!r}")
    fields = {**texts, "level": Level(str(entry["level"]))}
    return Sentence(**fields, weaker=tuple((version, Level(level)) for version, level in weaker.items()))  # type: ignore[arg-type] # each was looked at above
