"""The catalogue: all checks, and the sentences that no check can enforce."""

from collections.abc import Iterable, Sequence

from harness.conformance.catalogue import Check
from harness.conformance.report.wording import check_entry, place
from harness.conformance.sentences import Sentence
from harness.table import Table

__all__ = ["catalogue_document", "checks_table", "unchecked_table"]


def catalogue_document(checks: Sequence[Check], sentences: Iterable[Sentence]) -> dict[str, object]:
    """Return the catalogue as a JSON object; of `sentences` only those with a reason why no check enforces them."""
    return {
        "checks": [check_entry(check) | {"profiles": sorted(check.profiles), "since": check.since} for check in checks],
        "without_check": [each._asdict() for each in _without_check(sentences)],
    }


def checks_table(checks: Sequence[Check]) -> Table:
    """Return the checks as a table."""
    rows = [
        [check.id, str(check.level), ", ".join(sorted(check.profiles)), place(check.enforced[0]), check.title]
        for check in checks
    ]
    return Table(("CHECK", "LEVEL", "PROFILES", "SECTION", "DEMAND"), rows)


def unchecked_table(sentences: Iterable[Sentence]) -> Table:
    """Return the sentences that no check can enforce as a table."""
    rows = [[each.id, each.level, place(each), each.why_not] for each in _without_check(sentences)]
    return Table(("SENTENCE", "LEVEL", "SECTION", "WHY NO CHECK ENFORCES IT"), rows)


def _without_check(sentences: Iterable[Sentence]) -> list[Sentence]:
    return [each for each in sentences if each.why_not and each.side != "runtime"]
