"""A file of failures that a maintainer knows and lives with; only new ones count.

Each line names a plugin, a check, and behind "#" the reason. Both names may be patterns, as of a shell:

    bridge            del-netns-gone   # iptables rules stay: project/issues/1
    my-net/portmap    gc-*             # GC is planned

A line that begins with "#" is a comment. The network before the plugin may be omitted. A reason may begin with
"reason:", as in the file that the suite writes; nobody has filled it if nothing follows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple, Self

from harness.conformance.catalogue import SUITE_VERSION
from harness.conformance.finding import Finding, Outcome
from harness.output import printable

_FAILED: Final = (Outcome.FAIL, Outcome.WARN)
_FLAKY: Final = "intermittent"
"""The first word of a reason. It says that the failure comes and goes, so that a pass proves nothing."""
_LONGEST: Final = 100
"""Characters of an observation that this program writes."""
_LABEL: Final = "reason:"
_HEAD: Final = f"""\
# Known failures, found by the conformance suite {SUITE_VERSION}: a plugin, a check, and behind "#" the reason.
# Write a reason behind each "{_LABEL}": why you live with this failure. Without one, the file is not accepted.
# A run tells which of these checks pass; remove their lines then.
"""
_MADE_BY: Final = re.compile(r"^# Known failures, found by the conformance suite (\d\S*):", re.MULTILINE)


class KnownFailuresError(Exception):
    """A file of known failures that cannot be used; the message names the file and the line."""


class KnownFailure(NamedTuple):
    """One line of the file."""

    line: int
    plugin: str
    check: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Tell whether the line names this finding's plugin and check."""
        subject = finding.subject
        names = (subject.type, f"{subject.network.name}/{subject.type}")
        return fnmatchcase(finding.check.id, self.check) and any(fnmatchcase(name, self.plugin) for name in names)


@dataclass(frozen=True)
class KnownFailures:
    """The lines of a file."""

    path: Path = Path()
    entries: tuple[KnownFailure, ...] = ()
    suite_version: str = SUITE_VERSION
    """The version of the suite that wrote the file; the present one if the file does not say."""

    @classmethod
    def read(cls, path: Path | None, ids: Sequence[str]) -> Self:
        """Read a file; without one, nothing is known. `ids` are those of all checks. Raises KnownFailuresError."""
        if path is None:
            return cls()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise KnownFailuresError(f"{path}: {reason}") from None
        entries = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                if (entry := _entry(number, line, ids)) is not None:
                    entries.append(entry)
            except ValueError as error:
                raise KnownFailuresError(f"{path}, line {number}: {error}") from None
        made_by = _MADE_BY.search(text)
        return cls(path, tuple(entries), made_by[1] if made_by else SUITE_VERSION)

    def marked(self, finding: Finding) -> Finding:
        """Return the finding, with the reason of the first line that knows the failure."""
        if finding.outcome not in _FAILED:
            return finding
        return finding._replace(known=next((each.reason for each in self.entries if each.covers(finding)), ""))

    def outdated_in_words(self, findings: Sequence[Finding], *, exact: bool = False) -> list[str]:
        """Return a sentence for each line whose checks pass now: one does, and none has another outcome than n/a.

        If `exact`, patterns of checks are left out.
        """
        ids, told = {finding.check.id for finding in findings}, []
        for entry in self.entries:
            outcomes = {finding.outcome for finding in findings if entry.covers(finding)}
            passes = outcomes - {Outcome.NOT_APPLICABLE} == {Outcome.PASS}
            if passes and not entry.reason.lower().startswith(_FLAKY) and (not exact or entry.check in ids):
                told.append(f"{entry.plugin} {entry.check} passes now: remove line {entry.line} of {self.path}")
        return told


NOTHING_KNOWN: Final = KnownFailures()


def known_failures_file(findings: Sequence[Finding]) -> str:
    """Return a file that names all failures among these findings.

    The reason is the known one. Of a new failure it is left for the maintainer, below a comment with the observation.
    """
    rows: dict[tuple[str, str], str] = {}
    for finding in findings:
        if finding.outcome is Outcome.FAIL:
            place = f"{finding.subject.network.name}/{finding.subject.type}"
            row = f"{place} {finding.check.id}  # {finding.known or _LABEL}\n"
            rows.setdefault((place, finding.check.id), row if finding.known else f"# {_observation(finding)}\n{row}")
    return _HEAD + "".join(rows.values())


def _observation(finding: Finding) -> str:
    text = printable(" ".join((finding.got or finding.detail).split()))
    flaky = f"{_FLAKY}, {finding.failed_runs} of {finding.runs} runs: " if finding.is_intermittent else ""
    return f"{flaky}{finding.check.level}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


def _entry(number: int, line: str, ids: Sequence[str]) -> KnownFailure | None:
    """Read a line; None if it says nothing. Raises ValueError."""
    names, _, reason = line.partition("#")
    words = names.split()
    if not words:
        return None
    if len(words) != len(("plugin", "check")):
        raise ValueError(f"a plugin and a check are expected before the #, not {names.strip()!r}")
    plugin, check = words
    reason = reason.strip().removeprefix(_LABEL).strip()
    if not reason:
        raise ValueError(f"{plugin} {check}: the reason is missing; write it behind a #")
    if not any(fnmatchcase(each, check) for each in ids):
        raise ValueError(f"there is no check {check}")
    return KnownFailure(number, plugin, check, reason)
