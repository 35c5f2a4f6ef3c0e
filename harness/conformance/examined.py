"""The circumstances of a run: the executables that were examined, and the machine."""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from harness.conformance.course import BARE_PATH
from harness.conformance.examination import Examination, ExaminedFile
from harness.conformance.finding import Finding
from harness.conformance.privileges import privileges
from harness.conformance.reproduce import Arguments, this_program
from harness.conformance.requests import execute
from harness.conformance.subject import Subject
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.runtime.node import Node
from harness.runtime.site import Site

_SECONDS: Final = 5.0
"""The time limit of an execution without a verb."""


def examination_of(
    findings: Sequence[Finding],
    *,
    began: datetime,
    state_dir: Path,
    cut_short: str = "",
    arguments: Arguments | None = None,
    left_for_good: Mapping[str, tuple[str, ...]] | None = None,
) -> Examination:
    """Return the run's record. `began` has a time zone; the other fields are those of Examination.

    Each executable is executed without CNI_COMMAND, on a node of its own. Raises OSError if the node cannot be made.
    """
    return Examination(
        findings=tuple(findings),
        files=tuple(_files([subject for subject, _ in groupby(findings, attrgetter("subject"))], state_dir)),
        kernel=os.uname().release,
        began=began,
        command=(*this_program(), *sys.argv[1:]),
        privileges=privileges(),
        cut_short=cut_short,
        arguments=arguments or Arguments(),
        left_for_good=dict(left_for_good or {}),
    )


def _files(subjects: Iterable[Subject], state_dir: Path) -> Iterator[ExaminedFile]:
    """Yield the executables of the subjects, each once, in their order."""
    wanted = dict.fromkeys(found for subject in subjects for found in _executables(subject))
    if not wanted:
        return
    with Site(state_dir, "conformance") as site:
        node = site.node()
        for name, path in wanted:
            yield ExaminedFile(name, path, _sha256(path), _about(path, node))


def _executables(subject: Subject) -> Iterator[tuple[str, Path]]:
    executor = Executor(subject.bin_dirs)
    for name in subject.executables:
        try:
            yield name, executor.find(name)
        except PluginNotFoundError:  # removed during the run
            continue


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _about(path: Path, node: Node) -> str:
    """Return the first line that the executable prints without a verb: on stderr, or else on stdout."""
    try:
        said = node.run(execute, path, environ={"PATH": BARE_PATH}, stdin=b"", timeout=_SECONDS)
    except OSError:  # the kernel cannot execute it, as a finding says
        return ""
    text = b"\n".join((said.stderr, said.stdout)).decode(errors="replace")
    return next(filter(None, map(str.strip, text.splitlines())), "")
