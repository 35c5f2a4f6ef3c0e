"""The catalogue: all checks, and the sentences that no check can enforce."""

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.conformance.catalogue import Check
from harness.conformance.report.wording import check_entry, place
from harness.conformance.selection import section_name, section_names
from harness.conformance.sentences import Sentence
from harness.conformance.threshold import Side
from harness.output import TextTable


def catalogue_document(checks: Sequence[Check], sentences: Iterable[Sentence]) -> dict[str, object]:
    """Return the catalogue as a JSON object; of `sentences` only those with a reason why no check enforces them."""
    return {
        "checks": [_entry(check) for check in checks],
        "sections": [{"name": name, "headings": title} for name, title in sorted(section_names(checks).items())],
        "without_check": [each._asdict() for each in unchecked(sentences)],
    }


def _entry(check: Check) -> dict[str, object]:
    """Return the entries of a check; `levels` has its levels by the version of SPEC.md that each came with."""
    levels = {version: str(level) for version, level in check.levels.items()}
    return check_entry(check) | {"profiles": sorted(check.profiles), "since": check.since, "levels": levels}


def checks_table(checks: Sequence[Check]) -> TextTable:
    """Return the checks as a table."""
    rows = [
        [
            check.id,
            str(check.level),
            _since(check),
            check.effect.kind if check.effect else "-",
            ", ".join(sorted(check.profiles)),
            place(check.enforced[0]),
            check.title,
        ]
        for check in checks
    ]
    return TextTable(("CHECK", "LEVEL", "SINCE", "EFFECT", "PROFILES", "SECTION", "DEMAND"), rows)


def _since(check: Check) -> str:
    """Return the version that a check's level came with; in brackets the first one with a less binding level."""
    versions = list(check.levels)
    return versions[-1] if len(versions) == 1 else f"{versions[-1]} ({versions[0]})"


def sections_table(checks: Sequence[Check]) -> TextTable:
    """Return the sections of these checks' sentences as a table: the names that `--section` takes."""
    names = section_names(checks)
    numbers = Counter(name for check in checks for name in set(map(section_name, check.enforced)))
    rows = [[name, str(numbers[name]), title] for name, title in sorted(names.items())]
    return TextTable(("SECTION", "CHECKS", "HEADINGS"), rows)


def unchecked(sentences: Iterable[Sentence], side: Side = "plugins") -> list[Sentence]:
    """Return the sentences about plugins, or about runtimes, that no check can enforce."""
    return [each for each in sentences if each.why_not and (each.side == "runtime") == (side == "runtimes")]


def unchecked_table(sentences: Iterable[Sentence], side: Side = "plugins") -> TextTable:
    """Return the sentences that no check can enforce, with the reasons, as a table."""
    rows = [[each.id, each.level, place(each), each.why_not] for each in unchecked(sentences, side)]
    return TextTable(("SENTENCE", "LEVEL", "SECTION", "WHY NO CHECK ENFORCES IT"), rows)
