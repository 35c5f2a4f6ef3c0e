"""Plugins whose ADD always fails: this is one finding, and not one of each check that needs an ADD."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.conformance import expect
from harness.conformance.subject import Subject
from harness.conformance.trial import Extent, Trial
from harness.conformance.verdict import ViolationError
from harness.libcni.execute import Execution
from harness.runtime.site import Site
from skel.versions import VERB_SINCE, at_least

__all__ = ["TELLING", "why_unable"]

TELLING: Final = "add-prints-result"
"""The check that reports the finding."""

_NUMBERS: Final = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*")
"""The varying parts of one failure's message: container IDs, names of namespaces and interfaces, times."""


def why_unable(executions: Sequence[Execution], subject: Subject, state_dir: Path, extent: Extent) -> str:
    """Return how an ordinary ADD ends on a new node, if one of these executions is an ADD that failed like that."""
    failed = [_words(each) for each in executions if each.verb == "ADD" and each.exit_code != 0]
    if not failed:
        return ""
    with Site(state_dir, "conformance") as site:
        trial = Trial(subject, site, extent)
        if at_least(trial.version, VERB_SINCE["STATUS"]):
            trial.status()  # as runtimes do; another check reports an ADD that depends on it
        try:
            ordinary = trial.add()
        except ViolationError:  # raised by the plugins before it
            return ""
    return expect.ending(ordinary) if ordinary.exit_code != 0 and _words(ordinary) in failed else ""


def _words(execution: Execution) -> bytes:
    return _NUMBERS.sub(b"#", execution.stdout or execution.stderr)
