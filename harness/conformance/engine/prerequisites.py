"""Prerequisites of most checks, each reported by a check of its own: the causes of findings that only follow from them.

A plugin whose ADD fails would otherwise be blamed by every check that needs an ADD. Two violations are the same fault
if their failed calls end alike, whatever their containers, addresses and times are.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from harness.conformance.catalogue import Check
from harness.conformance.engine import expect
from harness.conformance.engine.attempt import ORDINARY_ADD
from harness.conformance.finding import Finding, Outcome, ViolationError
from harness.libcni.execute import Execution
from skel.errors import CniError
from skel.result import Result

NUMBERS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
"""The varying parts of one failure's message: container IDs, names of namespaces and interfaces, times."""
_DIFFERENCE: Final = re.compile(r"[-+~] \w+: ")
"""The beginning of a difference of a node, in words."""
RESULT_VERSION: Final = "add-repeats-cni-version"
FailedCall: TypeAlias = tuple[str, str]
"""A failed execution: its verb and its ending, in words without numbers."""


def failed_calls(executions: Iterable[Execution]) -> set[FailedCall]:
    """Return the failed calls among these executions; those that succeed with a valid result have none."""
    return {(execution.verb, ending) for execution in executions for ending in _endings(execution)}


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


def _without_names(execution: Execution, text: str) -> str:
    """Return a text without the values of the request's variables, and without numbers."""
    variables = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")
    named = sorted(((execution.environ.get(each, ""), each) for each in variables), key=lambda pair: -len(pair[0]))
    for value, variable in named:
        text = text.replace(value, variable) if value else text
    return NUMBERS.sub("#", text)


def _endings(execution: Execution) -> Iterator[str]:
    if execution.timed_out:
        yield "hangs"
    elif execution.flooded:
        yield "floods"
    elif execution.exit_code < 0:
        yield f"killed by signal {-execution.exit_code}"
    elif execution.exit_code != 0:
        said = (execution.stdout or execution.stderr).decode(errors="replace")
        yield f"fails: {_without_names(execution, said)}"
    elif execution.verb == "ADD":
        try:
            Result.decode_any(expect.document(execution), "result")
        except (ViolationError, CniError) as error:
            yield f"result: {_without_names(execution, str(error))}"


def _is_refusal(violation: ViolationError | None) -> bool:
    """Tell whether a violation is a call that fails, and not its success or its leftovers."""
    shown = violation.execution if violation else None
    return shown is not None and bool(failed_calls([shown]))


class Prerequisite(NamedTuple):
    """Something that checks take for granted: `check` is the ID of the check that examines it, with this verb.

    Without a verb it explains only the violations that name it.
    """

    check: str
    verb: str = ""
    after_del: bool = False
    """It is about an ADD that follows a DEL."""
    is_answer: bool = False
    """Without it, checks that expect an error of the verb get one in any case."""
    of_first: bool = False
    """Only the first execution of the verb is an ordinary one, so only its failure explains others."""

    def concerns(self, effect: Finding) -> bool:
        """Tell whether another check's outcome may follow from this one's, so that it is worth a run."""
        violation = effect.violation
        if violation is None:
            passed = effect.outcome is Outcome.PASS
            executions = self._executions(effect)
            return passed and self.is_answer and bool(executions) and all(failed_calls([each]) for each in executions)
        named = violation.follows == self.check
        return named or self._is_needed(effect) or bool(self._seen(effect)) or bool(self._left(effect))

    def explains(self, cause: Finding, effect: Finding) -> bool:
        """Tell whether the fault that its check has found is the fault of another check, which it concerns."""
        if cause.outcome not in {Outcome.FAIL, Outcome.WARN}:
            return False
        if effect.violation is not None and effect.violation.follows == self.check:
            return True
        known = failed_calls(self._executions(cause)[:1] if self.of_first else cause.transcript)
        if effect.violation is None:
            return all(failed_calls([each]) & known for each in self._executions(effect))
        left = frozenset[str]() if self.of_first else self._left(effect)
        explained = bool(left) and left <= leftovers_in(cause.got)
        return bool(self._seen(effect) & known) or explained or self._lacks(effect, cause)

    def _lacks(self, effect: Finding, cause: Finding) -> bool:
        """Tell whether a check that needs this one lacks it: both fail in the same way, or the effect's calls do."""
        if not self._is_needed(effect):
            return False
        alike = _is_refusal(effect.violation) == _is_refusal(cause.violation)
        return alike or bool(failed_calls(self._executions(effect)) & failed_calls(cause.transcript))

    def _is_needed(self, effect: Finding) -> bool:
        """Tell whether a check declares that it needs this one, and was violated in the verb that this one is about."""
        shown = effect.violation.execution if effect.violation else None
        return self.check in effect.check.needs and (shown is None or shown.verb == self.verb)

    def _executions(self, effect: Finding) -> list[Execution]:
        return [each for each in effect.transcript if each.verb == self.verb]

    def _seen(self, effect: Finding) -> set[FailedCall]:
        """Return the failed calls of a violation that this prerequisite may explain."""
        executions = list(effect.transcript)
        if self.after_del:
            deleted = [number for number, each in enumerate(executions) if each.verb == "DEL"]
            executions = executions[deleted[0] :] if deleted else []
        shown = effect.violation.execution if effect.violation else None
        if shown is not None and not self.after_del:
            executions.append(shown)  # it may be of another node, as in the check that kills the plugin
        if self.verb != "ADD" and shown is not None:
            executions = [shown]  # an ADD that fails spoils everything; of other verbs, only the one that is blamed
        return {(verb, ending) for verb, ending in failed_calls(executions) if verb == self.verb}

    def _left(self, effect: Finding) -> frozenset[str]:
        """Return the differences of the node that a violation names, if this verb was the last one."""
        executions = effect.transcript
        if effect.violation is None or not executions or executions[-1].verb != self.verb:
            return frozenset()
        return leftovers_in(effect.violation.got)


PREREQUISITES: Final = (
    Prerequisite(ORDINARY_ADD, "ADD", is_answer=True),
    Prerequisite(RESULT_VERSION, "ADD"),
    Prerequisite("add-cidr-notation", "ADD"),
    Prerequisite("add-netns-gone", "ADD"),
    Prerequisite("add-makes-interface", "ADD"),
    Prerequisite("add-sandbox", "ADD"),
    Prerequisite("add-late-failure-leaves-nothing"),
    Prerequisite("delegate-undone-after-failed-add"),
    Prerequisite("add-kinds-of-values", "ADD"),
    Prerequisite("version-result", "VERSION"),
    Prerequisite("del-twice", "DEL", of_first=True),
    Prerequisite("del-undoes-add", "DEL"),
    Prerequisite("del-never-added", "DEL"),
    Prerequisite("del-netns-gone", "DEL"),
    Prerequisite("del-without-prev-result", "DEL"),
    Prerequisite("add-after-del", "ADD", after_del=True),
    Prerequisite("add-tells-interfaces"),
    Prerequisite("delegate-addresses-applied"),
    Prerequisite("check-after-add", "CHECK", is_answer=True),
    Prerequisite("check-everything-missing", "CHECK"),
    Prerequisite("check-after-del", "CHECK"),
    Prerequisite("check-other-address-expected", "CHECK"),
    Prerequisite("delegate-check", "CHECK"),
    Prerequisite("status-ready", "STATUS", is_answer=True),
    Prerequisite("status-forwarded", "STATUS"),
    Prerequisite("delegate-gc", "GC", is_answer=True),
    Prerequisite("gc-of-nothing", "GC", is_answer=True),
    Prerequisite("gc-removes-stale", "GC"),
    Prerequisite("parallel-add"),
    Prerequisite("add-existing-interface"),
    Prerequisite("error-object"),
    Prerequisite("version-unsupported"),
    Prerequisite("container-id-invalid"),
    Prerequisite("stdin-closed"),
    Prerequisite("args-passed-over"),
)
"""In the order in which they explain each other.

Of one verb, a MUST comes first: if a SHOULD were its cause, a plugin whose DEL always fails would break no MUST.
"""


def causes_first(checks: Iterable[Check]) -> list[Check]:
    """Return the checks in their order, with the causes of others first."""
    positions = {each.check: number for number, each in enumerate(PREREQUISITES)}
    return sorted(checks, key=lambda check: positions.get(check.id, len(positions)))


def prerequisites_of(check: str) -> tuple[Prerequisite, ...]:
    """Return the prerequisites that may explain a violation of one of their own checks.

    Of one verb these are the earlier ones. The ordinary ADD has none.
    """
    names = [each.check for each in PREREQUISITES]
    position = names.index(check)
    verb = PREREQUISITES[position].verb
    if not position:
        return ()
    return tuple(each for number, each in enumerate(PREREQUISITES) if number < position or each.verb != verb)
