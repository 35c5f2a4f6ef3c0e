"""The versions of SPEC.md that sentences about plugins came with: the texts of all versions are the proof.

specifications/README.md tells where the texts are from; passages.yaml has other wordings of the sentences.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from harness.conformance.checks import all_checks
from harness.conformance.sentences import Level, Sentence, load, read_yaml
from skel.versions import SUPPORTED, VERB_SINCE, parse

FOLDER: Final = Path(__file__).with_name("specifications")
AMENDED: Final = "1.1.0-amended"
"""The present text, which has the version of the one before."""
PASSAGES: Final[Mapping[str, Mapping[str, str]]] = read_yaml((FOLDER / "passages.yaml").read_text(encoding="utf-8"))
OF_SPEC: Final = [each for each in load().values() if each.document == "SPEC.md"]
OF_PLUGINS: Final = [each for each in OF_SPEC if each.checkable]
LEVELS: Final = list(Level)
WORDS: Final = {
    "must": Level.MUST,
    "required": Level.MUST,
    "should": Level.SHOULD,
    "recommended": Level.SHOULD,
    "may": Level.MAY,
    "optional": Level.MAY,
}

each_sentence = pytest.mark.parametrize("sentence", OF_PLUGINS, ids=lambda sentence: sentence.id)


def plain(text: str) -> str:
    """Return a text without its line breaks and Markdown's emphasis."""
    return " ".join(re.sub(r"[*`]|(?<!\w)_|_(?!\w)", "", text).split())


TEXTS: Final = {
    version: plain((FOLDER / f"SPEC-{version}.md").read_text(encoding="utf-8")) for version in (*SUPPORTED, AMENDED)
}
ORDER: Final = list(TEXTS)


def is_in(version: str, passage: str) -> bool:
    """Tell whether a text has the pieces of a passage, in their order."""
    text, place = TEXTS[version], 0
    for piece in filter(None, map(str.strip, plain(passage).split("…"))):
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def passage_in(sentence: Sentence, version: str) -> str:
    """Return the words that make the demand in a version: those of the sentence, or else an earlier passage."""
    if is_in(version, sentence.text):
        return sentence.text
    others = PASSAGES.get(sentence.id, {})
    held = [text for since, text in others.items() if ORDER.index(since) <= ORDER.index(version)]
    return held[-1] if held else ""


def level_in(sentence: Sentence, version: str) -> Level | None:
    return sentence.level_in(version.removesuffix("-amended"))


def strongest_word(text: str) -> Level | None:
    found = [level for word, level in WORDS.items() if re.search(rf"\b{word}\b", text.lower())]
    return min(found, key=LEVELS.index, default=None)


def test_texts_are_unmodified() -> None:
    told = re.findall(r"^\| (SPEC-\S+) \| .* \| ([0-9a-f]{64}) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("SPEC-*.md")}

    assert dict(told) == found
    assert sorted(found) == sorted(f"SPEC-{version}.md" for version in TEXTS)


@pytest.mark.parametrize("sentence", OF_SPEC, ids=lambda sentence: sentence.id)
def test_sentence_is_quoted_from_the_present_text(sentence: Sentence) -> None:
    assert is_in(AMENDED, sentence.text)


@each_sentence
def test_sentence_has_its_version_and_weaker_ones_before_it(sentence: Sentence) -> None:
    versions, levels = zip(*sentence.levels, strict=True)

    assert sentence.since != ""
    assert list(versions) == sorted(set(versions), key=parse)
    assert list(levels) == sorted(set(levels), key=LEVELS.index, reverse=True)


@each_sentence
def test_each_version_from_the_first_has_a_passage_that_makes_the_demand(sentence: Sentence) -> None:
    demanding = [version for version in TEXTS if level_in(sentence, version) not in {None, Level.CONVENTION}]
    missing = [
        version
        for version in demanding
        if not (passage := passage_in(sentence, version)) or not is_in(version, passage)
    ]

    assert demanding != []
    assert missing == []


@each_sentence
def test_passage_is_not_less_binding_than_its_level(sentence: Sentence) -> None:
    for version in TEXTS:
        level, word = level_in(sentence, version), strongest_word(passage_in(sentence, version))
        if level not in {None, Level.CONVENTION} and word is not None:
            assert LEVELS.index(word) <= LEVELS.index(level), version


@each_sentence
def test_version_before_a_level_lacks_the_passage(sentence: Sentence) -> None:
    for before, version in pairwise(TEXTS):
        if level_in(sentence, before) != level_in(sentence, version):
            assert not is_in(before, passage_in(sentence, version)), before


@each_sentence
def test_versions_that_do_not_make_the_demand_lack_the_sentence(sentence: Sentence) -> None:
    silent = [version for version in TEXTS if level_in(sentence, version) in {None, Level.CONVENTION}]

    assert [version for version in silent if is_in(version, sentence.text)] == []


def test_passages_are_of_sentences_in_versions_that_make_the_demand() -> None:
    known = {each.id: each for each in OF_PLUGINS}

    assert PASSAGES.keys() <= known.keys()
    for name, passages in PASSAGES.items():
        assert list(passages) == sorted(passages, key=ORDER.index)
        for version in passages:
            assert level_in(known[name], version) not in {None, Level.CONVENTION}, name
            assert not is_in(version, known[name].text), name


@each_sentence
def test_sentence_about_a_verb_came_with_the_verb(sentence: Sentence) -> None:
    verb = sentence.section.rpartition(" / ")[2]

    assert sentence.levels[0][0] == VERB_SINCE.get(verb, sentence.levels[0][0])


@each_sentence
def test_demand_is_a_convention_before_its_sentence_only_if_its_checks_have_effects(sentence: Sentence) -> None:
    enforcing = [check for check in all_checks() if check.enforced[0] == sentence]

    if Level.CONVENTION in dict(sentence.levels).values():
        assert [check.id for check in enforcing if check.effect is None] == []
