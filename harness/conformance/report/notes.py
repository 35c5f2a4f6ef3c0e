"""Facts about a finding besides its outcome: intermittence, a known failure, the command that repeats it, its node."""

import shlex
from collections.abc import Iterator
from typing import Final

from harness.conformance.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.reproduce import Arguments, clean_command, command_of
from harness.output import printable

COMMANDS: Final = frozenset({"reproduce", "enter", "remove"})
"""The names of facts that are commands for a shell."""


def notes(finding: Finding, examination: Examination) -> Iterator[tuple[str, str]]:
    """Yield facts in words, each with its name."""
    if finding.is_intermittent:
        yield "intermittent", f"{finding.failed_runs} of {finding.runs} runs failed"
    if finding.known:
        yield "known", printable(finding.known)
    yield "reproduce", printable(command_of(finding, examination.arguments))
    yield from kept_facts(finding, examination.arguments)


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
