"""The checks that a user chooses, by ID, level and section of the specification."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from harness.conformance.catalogue import Check
from harness.conformance.sentences import Level, Sentence

_NUMBER: Final = re.compile(r"\d+")
_ASIDE: Final = re.compile(r"\(.*?\)")
_WORD: Final = re.compile(r"\w+(?:-\w+)*")
_STRICTNESS: Final = {level: number for number, level in enumerate(Level)}


def section_name(sentence: Sentence) -> str:
    """Return the short name of a sentence's section, derived from the headings.

    Only SPEC.md numbers its chapters. Words in capitals stay, the others get small letters.
    """
    if sentence.document != "SPEC.md":
        return f"{sentence.document.removesuffix('.md').lower()}.{_words(sentence.section)}"
    chapter, _, heading = sentence.section.partition(" / ")
    number = _NUMBER.match(chapter)
    first = number[0] if number else _words(chapter)
    return f"{first}.{_words(heading)}" if heading else first


def is_within(section: str, other: str) -> bool:
    """Tell whether a section is `other` or one of its subsections; the case of letters does not matter."""
    return f"{section.lower()}.".startswith(f"{other.lower()}.")


def _words(heading: str) -> str:
    words = _WORD.findall(_ASIDE.sub("", heading))
    return "-".join(word if word.isupper() else word.lower() for word in words)


class SelectionError(Exception):
    """An option selects nothing: `given` is its value, `known` has the values to choose from."""

    def __init__(self, option: str, given: str, known: Sequence[str]) -> None:
        super().__init__(f"{option} {given}: no such {option}")
        self.option = option
        self.given = given
        self.known = known


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A choice of checks. Each condition that is not empty has to hold."""

    only: Sequence[str] = ()
    """IDs of checks, or patterns as of a shell: `del-*`."""
    skip: Sequence[str] = ()
    """IDs or patterns of the checks that are left out."""
    level: Level | None = None
    """The least binding level."""
    sections: Sequence[str] = ()
    """Short names of sections. A check is in the sections of all its sentences, and in the sections around these."""

    def of(self, checks: Sequence[Check]) -> list[Check]:
        """Return the chosen ones of all checks, in their order. Raises SelectionError."""
        ids = [check.id for check in checks]
        for option, patterns in (("check", self.only), ("skip", self.skip)):
            for pattern in patterns:
                if not any(fnmatchcase(each, pattern) for each in ids):
                    raise SelectionError(option, pattern, ids)
        there = section_names(checks)
        for section in self.sections:
            if not any(is_within(each, section) for each in there):
                raise SelectionError("section", section, list(there))
        return [check for check in checks if self._has(check)]

    def _has(self, check: Check) -> bool:
        if self.only and not _matches(check.id, self.only):
            return False
        if _matches(check.id, self.skip):
            return False
        if self.level is not None and _STRICTNESS[check.level] > _STRICTNESS[self.level]:
            return False
        places = [section_name(sentence) for sentence in check.enforced]
        return not self.sections or any(is_within(place, section) for place in places for section in self.sections)


def section_names(checks: Sequence[Check]) -> dict[str, str]:
    """Return the sections of these checks' sentences: the short name of each, and document and headings."""
    sentences = [sentence for check in checks for sentence in check.enforced]
    return {section_name(each): f"{each.document}, {each.section}" for each in sentences}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
