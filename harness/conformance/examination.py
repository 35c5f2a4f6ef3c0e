"""One run of the suite, as every report describes it: the findings, and the circumstances in which they were made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from harness.conformance.catalogue import SPEC_VERSION, SUITE_VERSION
from harness.conformance.finding import Finding
from harness.conformance.reproduce import Arguments


@dataclass(frozen=True)
class ExaminedFile:
    """An executable that was examined. `about` is the line that it prints without CNI_COMMAND, empty for none."""

    type: str
    path: Path
    sha256: str
    about: str


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The findings of a run, and their circumstances."""

    findings: tuple[Finding, ...]
    files: tuple[ExaminedFile, ...]
    kernel: str
    """As `uname -r` prints it."""
    began: datetime
    """With a time zone."""
    command: tuple[str, ...]
    """The command line, the program first."""
    privileges: str
    """How the suite came to its rights: "root", "sudo" or "user namespace"."""
    cut_short: str = ""
    """The reason if the run ended before its last check, for example "interrupted"."""
    arguments: Arguments = field(default_factory=Arguments)
    """The arguments that a command needs to repeat a finding (harness.conformance.reproduce)."""
    left_for_good: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The things that the first ADD leaves on the node, by plugin and network: "nft table ip nat"; no fault."""
    spec_version: str = SPEC_VERSION
    suite_version: str = SUITE_VERSION
