"""One finding in words, and many in figures: the common part of all forms of the report."""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

import click

from harness.conformance.catalogue import AnyCheck
from harness.conformance.finding import NOT_JUDGED, Finding, Outcome
from harness.conformance.reproduce import Arguments, clean_command, command_of
from harness.conformance.sentences import Sentence
from harness.conformance.subject import Subject
from harness.output import printable

TOLD: Final = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)
"""The outcomes that are told in full."""

_QUOTED: Final = ("SPEC.md", "CONVENTIONS.md")
"""The documents whose sentences are given in their own words."""

_NEXT_DIFFERENCE: Final = re.compile(r"; (?=[-+~] \w+: )")
"""The boundary between two differences of a node."""
COLOURS: Final = {
    Outcome.PASS: "green",
    Outcome.FAIL: "red",
    Outcome.ERROR: "magenta",
    Outcome.WARN: "yellow",
    Outcome.NOT_APPLICABLE: "cyan",
    Outcome.NOT_EXAMINED: "cyan",
}
COMMANDS: Final = frozenset({"reproduce", "enter", "remove"})
"""The names of facts that are commands for a shell."""


class Judged(Protocol):
    """A finding about a plugin or about a runtime."""

    @property
    def outcome(self) -> Outcome:
        """The outcome of its check."""


def by_subject(findings: Sequence[Finding]) -> list[tuple[Subject, list[Finding]]]:
    """Return the findings grouped by their plugin, in their order."""
    return [(subject, list(found)) for subject, found in groupby(findings, lambda finding: finding.subject)]


def counts(findings: Sequence[Judged]) -> dict[str, int]:
    """Return the number of findings with each outcome."""
    return {outcome.value: sum(finding.outcome is outcome for finding in findings) for outcome in Outcome}


def tally(numbers: Mapping[str, int]) -> str:
    """Return counts as people read them: `12 pass, 1 fail, 3 n/a`; zeros are left out."""
    return ", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number) or "no checks"


def is_shown(finding: Finding, *, only_failures: bool) -> bool:
    """Tell whether the finding is wanted."""
    return finding.outcome in {Outcome.FAIL, Outcome.ERROR} or not only_failures


def subject_entry(subject: Subject) -> dict[str, object]:
    """Return the entries of a plugin that all documents have."""
    return {"network": subject.network.name, "plugin": subject.type, "profile": str(subject.profile)}


def check_entry(check: AnyCheck) -> dict[str, object]:
    """Return the entries of a check that all documents have; `effect` is empty if its failure has none."""
    sentence = check.enforced[0]
    return {
        "id": check.id,
        "title": check.title,
        "document": sentence.document,
        "section": sentence.section,
        "sentence": sentence.text,
        "sentences": list(check.sentences),
        "level": str(check.level),
        "effect": check.effect.words if check.effect else "",
    }


def place(sentence: Sentence) -> str:
    """Return the source of a sentence: `SPEC.md, 2 Execution Protocol / Parameters`."""
    return f"{sentence.document}, {sentence.section}"


def demand(check: AnyCheck) -> str:
    """Return the sentence that a check enforces, in quotation marks if its document is quoted."""
    sentence = check.enforced[0]
    return f'"{sentence.text}"' if sentence.document in _QUOTED else sentence.text


def facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the expectation, the answer and the request, each with its name; unknown ones are left out.

    The answer may have several lines: one for each difference of a node. First comes a level that is raised later.
    """
    sentence, version = finding.check.enforced[0], finding.subject.network.cni_version
    if sentence.level_in(version) not in {None, sentence.level}:
        yield "version", f"{finding.check.level} in {version}, and {sentence.level} since {sentence.since}"
    got = _NEXT_DIFFERENCE.sub("\n", finding.got)
    if finding.is_intermittent:
        yield "runs", f"intermittent: failed {finding.failed_runs} of {finding.runs} runs"
    for name, fact in (("expected", finding.expected), ("got", got), ("sent", finding.sent)):
        if fact:
            yield name, printable(fact)


def paragraph(finding: Finding) -> str:
    """Return the finding in words, one line for each fact, without the plugin and the name of the check."""
    told = [printable(finding.detail)] if finding.outcome in NOT_JUDGED else []
    told += [f"{name + ':':10}{fact}".replace("\n", "\n" + " " * 10) for name, fact in facts(finding)]
    return "\n".join([finding.check.title, demand(finding.check), *told])


def notes(finding: Finding, arguments: Arguments) -> Iterator[tuple[str, str]]:
    """Yield facts besides the outcome: intermittence, the known failure, the command that repeats it, the kept node."""
    if finding.is_intermittent:
        yield "intermittent", f"{finding.failed_runs} of {finding.runs} runs failed"
    if finding.known:
        yield "known", printable(finding.known)
    yield "reproduce", printable(command_of(finding, arguments))
    yield from kept_facts(finding, arguments)


def kept_facts(finding: Finding, arguments: Arguments) -> Iterator[tuple[str, str]]:
    """Yield the place of the node that was kept, the command that enters it, and the one that removes it."""
    kept = finding.kept
    if kept is not None:
        yield "node", f"{kept.netns}, files in {kept.state_dir}/nodes; containers: {', '.join(kept.containers)}"
        yield "enter", shlex.join(kept.enter)
        yield "remove", shlex.join(clean_command(kept, arguments))


def reason(finding: Finding) -> str:
    """Return the reason for the outcome of a check that is not told in full, on one line; empty for none."""
    cause = f" (see {finding.cause})" if finding.cause else ""
    return " ".join(f"{printable(finding.detail)}{cause}".split())


def label(outcome: Outcome) -> str:
    """Return an outcome for a terminal, in its colour and at least four columns wide."""
    return click.style(f"{outcome:4}", fg=COLOURS[outcome], bold=outcome is Outcome.FAIL)


def wrapped(line: str, width: int, head: str) -> list[str]:
    """Return lines of `width` columns; the first begins with `head`, and the others below it."""
    below = " " * len(head)
    return textwrap.wrap(line, width, initial_indent=head, subsequent_indent=below, break_long_words=False)
