"""Demands on one execution; each function raises ViolationError if its demand is not met."""

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.conformance.engine.requests import CorrectedExecution
from harness.conformance.finding import ViolationError
from harness.libcni.exchange import FLOOD
from harness.libcni.execute import Execution
from harness.runtime.site import NodeProcess
from harness.snapshot import Difference
from skel.errors import CniError
from skel.result import Result
from skel.strict_json import decode_output
from skel.versions import at_least

_QUOTED = 400
"""Characters of an output in a finding."""
_ROUNDED_FROM = 10.0
"""Seconds that are told without decimals."""
_CODES_SINCE = "1.0.0"
_NO_OBJECT = "error-object"
"""The check that examines error objects."""


def succeeded(execution: Execution, what: str = "", *, follows: str = "") -> Execution:
    """Demand that it ended by itself with exit code 0. `what` names its task.

    `follows` is the check that a failure is the finding of, if it is not this one.
    """
    expected = f"{what or execution.verb} succeeds, with exit code 0"
    if execution.output_held and not execution.timed_out:
        raise ViolationError(expected, "its end, but a process that it left behind holds its output open", execution)
    if execution.exit_code != 0 or execution.timed_out or execution.flooded:
        raise ViolationError(expected, ending(execution), execution, follows=follows)
    return execution


def failed(execution: Execution, what: str, *, follows: str = "") -> Execution:
    """Demand that it ended by itself with another exit code than 0. `what` is the reason why it has to fail.

    `follows` is the check that success is the finding of, if it is not this one.
    """
    expected = f"an error, since {what}"
    if execution.timed_out or execution.flooded or execution.exit_code < 0:
        raise ViolationError(expected, ending(execution), execution)
    if execution.exit_code == 0:
        raise ViolationError(expected, f"success (exit code 0){_said(execution)}", execution, follows=follows)
    return execution


def codes_of(version: str, *codes: int) -> Sequence[int]:
    """Return the codes that an error has to have, one of these; none before 1.0.0, which gave 4 to 7 their meanings."""
    return codes if at_least(version, _CODES_SINCE) else ()


def refused(
    execution: Execution, what: str, *, codes: Sequence[int] = (), naming: Sequence[str] = ()
) -> dict[str, object]:
    """Demand an error with an error object, and return the error object.

    Its code has to be one of `codes`, unless `codes` is empty. Each of `naming` has to occur in its message or details.
    If the error object is missing or invalid, the violation follows from that of the check `error-object`.
    """
    failed(execution, what)
    try:
        said = document(execution, f"an error object on standard output, since {what}")
    except ViolationError as error:
        raise ViolationError(error.expected, error.got, execution, follows=_NO_OBJECT) from None
    code, message = said.get("code"), said.get("msg")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str) or not message:
        expected = "an error object with a number as code and a msg"
        raise ViolationError(expected, _quoted(_printed(execution)), execution, follows=_NO_OBJECT)
    if codes and code not in codes:
        raise ViolationError(f"code {' or '.join(map(str, codes))}, since {what}", f"code {code}: {message}", execution)
    words = f"{message} {said.get('details', '')}"
    for name in naming:
        if name not in words:
            raise ViolationError(
                f'an error that names "{name}", since {what}', f"code {code}: {words.strip()}", execution
            )
    return said


def document(execution: Execution, what: str = "one JSON object on standard output") -> dict[str, object]:
    """Demand that standard output holds one JSON object and nothing else, and return it."""
    if not execution.stdout.strip():
        raise ViolationError(what, "nothing on standard output", execution)
    try:
        said = decode_output(execution.stdout)
    except ValueError as error:
        raise ViolationError(what, f"{error}: {_quoted(_printed(execution))}", execution) from None
    if not isinstance(said, dict):
        raise ViolationError(what, _quoted(_printed(execution)), execution)
    return said


def no_difference(differences: Iterable[Difference | NodeProcess], what: str) -> None:
    """Demand that there are none: no differences of a node, or no processes. `what` is the state that was wanted."""
    if found := "; ".join(each.in_words() for each in differences):
        raise ViolationError(what, found)


def nothing(found: Iterable[str], what: str) -> None:
    """Demand that no names of things are found. `what` is the state that was wanted: "no file in the folder"."""
    if names := ", ".join(sorted(found)):
        raise ViolationError(what, names)


def silent(execution: Execution) -> None:
    """Demand that it has printed nothing on standard output."""
    if execution.stdout.strip():
        raise ViolationError("nothing on standard output", execution.stdout.decode(errors="replace"), execution)


def any_case(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with its keys in small letters: readers ignore the case of keys."""
    return {key.lower(): value for key, value in written.items() if value is not None}


def result(execution: Execution, version: str, what: str = "") -> Result:
    """Demand success and a result in the shape of `version`, and return it. `what` names the execution's task."""
    succeeded(execution, what)
    said = document(execution, "a result object on standard output")
    if said.get("cniVersion") != version:
        raise ViolationError(
            f'a result with "cniVersion": "{version}", that of the configuration',
            f'"cniVersion": {json.dumps(said["cniVersion"])}' if "cniVersion" in said else "no cniVersion",
            execution,
        )
    try:
        return Result.decode_any(said, "result")
    except CniError as error:
        raise ViolationError(f"a result as version {version} has it", str(error), execution) from None


def ending(execution: Execution) -> str:
    """Return in words how it ended, and its output."""
    if execution.timed_out:
        decimals = 0 if execution.seconds >= _ROUNDED_FROM else 1
        return f"hangs: no end after {execution.seconds:.{decimals}f} s"
    if execution.flooded:
        stream = "output" if len(execution.stdout) >= len(execution.stderr) else "error"
        return f"floods: more than {FLOOD} bytes on standard {stream}"
    how = (
        f"killed by {_signal(-execution.exit_code)}" if execution.exit_code < 0 else f"exit code {execution.exit_code}"
    )
    return f"{how}{_said(execution)}"


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _said(execution: Execution) -> str:
    said = _quoted(_printed(execution)) or _quoted(execution.stderr)
    return f": {said}" if said else ", and nothing said"


def _printed(execution: Execution) -> bytes:
    """Return the plugin's own output, also of an execution that the suite has corrected."""
    return execution.printed if isinstance(execution, CorrectedExecution) else execution.stdout


def _quoted(output: bytes) -> str:
    text = re.sub(r"\s+", " ", output.decode(errors="replace")).strip()
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"
