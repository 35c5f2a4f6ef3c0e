"""The signs by which two violations are the same fault, whatever their containers, addresses and times are."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from harness.conformance import expect
from harness.conformance.finding import ViolationError
from harness.libcni.execute import Execution
from skel.errors import CniError
from skel.result import Result

NUMBERS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
"""The varying parts of one failure's message: container IDs, names of namespaces and interfaces, times."""
_DIFFERENCE: Final = re.compile(r"[-+~] \w+: ")
"""The beginning of a difference of a node, in words."""


class Symptom(NamedTuple):
    """A failed execution: its verb and its ending, in words without numbers."""

    verb: str
    ending: str


def symptoms(executions: Iterable[Execution]) -> set[Symptom]:
    """Return the symptoms of these executions; those that succeed with a valid result have none."""
    return {Symptom(execution.verb, ending) for execution in executions for ending in _endings(execution)}


def leftovers_in(got: str) -> frozenset[str]:
    """Return the differences of a node that a violation names, without numbers; none if it names anything else."""
    found = re.split(r"; (?=[-+~] \w+: )", got)
    if not all(_DIFFERENCE.match(each) for each in found):
        return frozenset()
    return frozenset(NUMBERS.sub("#", each) for each in found)


def version_differs(execution: Execution) -> bool:
    """Tell whether it is an ADD whose result has another cniVersion than its request."""
    if execution.verb != "ADD" or execution.exit_code != 0:
        return False
    try:
        said, asked = expect.document(execution), json.loads(execution.stdin)
    except (ViolationError, ValueError):
        return False
    return isinstance(asked, dict) and said.get("cniVersion") != asked.get("cniVersion")


def _endings(execution: Execution) -> Iterator[str]:
    if execution.timed_out:
        yield "hangs"
    elif execution.flooded:
        yield "floods"
    elif execution.exit_code < 0:
        yield f"killed by signal {-execution.exit_code}"
    elif execution.exit_code != 0:
        said = (execution.stdout or execution.stderr).decode(errors="replace")
        yield f"fails: {NUMBERS.sub('#', said)}"
    elif execution.verb == "ADD":
        try:
            Result.decode_any(expect.document(execution), "result")
        except (ViolationError, CniError) as error:
            yield f"result: {NUMBERS.sub('#', str(error))}"
