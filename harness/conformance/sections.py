"""Short names of the sections that sentences come from: `2.ADD`, `4.delegated-plugin-protocol`, `skel.output`."""

import re
from typing import Final

from harness.conformance.sentences import Sentence

_NUMBER: Final = re.compile(r"\d+")
_ASIDE: Final = re.compile(r"\(.*?\)")
_WORD: Final = re.compile(r"\w+(?:-\w+)*")


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
