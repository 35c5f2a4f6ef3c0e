"""The meaning of a plugin's run: success, its own error, or a breach of the protocol (SPEC.md section 5)."""

import signal
from collections.abc import Mapping

from harness.libcni.execute import Execution, PluginError
from skel.errors import CniError
from skel.record import rendered
from skel.result import Result
from skel.strict_json import decode_output
from skel.versions import at_least

_QUOTED = 1000
"""Characters of a plugin's output that are quoted in an error message."""

_RESULT_KEYS = frozenset({"interfaces", "ips", "routes", "dns", "ip4", "ip6"})


def require_success(execution: Execution) -> None:
    """Raise PluginError unless the plugin ended by itself, with exit code 0."""
    if execution.timed_out or execution.flooded:
        why = "printed without end" if execution.flooded else "gave no answer"
        said = _said("stderr", execution.stderr)
        raise _failure(execution, f"{why} and was killed after {execution.seconds:.1f} s", details=said)
    if execution.exit_code == 0:
        return
    ending = _ending(execution.exit_code)
    if not execution.stdout.strip():
        msg = _quoted(execution.stderr) or "no error message"
        raise _failure(execution, f"{msg} ({ending})")
    reported = _folded(printed_json(execution.stdout))
    if reported is None or not isinstance(reported.get("msg"), str):
        details = "; ".join(filter(None, [_said("stdout", execution.stdout), _said("stderr", execution.stderr)]))
        raise _failure(execution, f"{ending}, and what it printed is no error object", details=details)
    raise _own_error(execution, reported)


def decode_result(execution: Execution, version: str) -> dict[str, object]:
    """Return the result of an ADD as a JSON object of `version`, the configuration's.

    A result without a version gets that version, as in libcni. Raises PluginError for a failed plugin, and for output
    other than one result.
    """
    require_success(execution)
    if not execution.stdout.strip():
        raise _failure(execution, "it printed no result", details=_said("stderr", execution.stderr))
    printed = printed_json(execution.stdout)
    folded = _folded(printed)
    if folded is None or not isinstance(printed, dict):
        raise _failure(execution, "what it printed is no result", details=_said("stdout", execution.stdout))
    if folded.get("code") and not _RESULT_KEYS & folded.keys():
        raise _own_error(execution, folded, note=" (an error, though its exit code is 0)")
    try:
        return result_in_version(printed, version, f"result of {execution.plugin}")
    except CniError as error:
        raise _failure(execution, error.msg, code=error.code, details=error.details) from None


def result_in_version(printed: Mapping[str, object], version: str, path: str = "prevResult") -> dict[str, object]:
    """Return a result in the shape of `version`. Raises CniError (6 or 7) if it is not a result.

    A result that has this shape already stays as it is, including keys that the specification does not know.
    """
    decoded = Result.decode_any(printed, path)
    own_version = printed.get("cniVersion") or version
    if not isinstance(own_version, str):
        raise CniError(7, f"{path}.cniVersion: expected a string, got {rendered(own_version)}")
    at_least(own_version, version)  # raises for an invalid version
    if own_version == version:
        return {**printed, "cniVersion": version}
    return decoded.encode_as(version)


def decode_versions(execution: Execution) -> list[str]:
    """Return the versions of the specification that a plugin's answer to VERSION names. Raises PluginError."""
    try:
        require_success(execution)
    except PluginError as error:
        if error.msg == "unknown CNI_COMMAND: VERSION":  # from before 0.2.0, which brought the verb
            return ["0.1.0"]
        raise
    answer = _folded(printed_json(execution.stdout)) or {}
    supported = answer.get("supportedversions")
    if not supported and answer.get("cniversion") == "0.2.0":
        return ["0.1.0", "0.2.0"]
    if (
        not answer.get("cniversion")
        or not isinstance(supported, list)
        or not supported
        or not all(isinstance(version, str) for version in supported)
    ):
        raise _failure(execution, "what it printed is no answer", details=_said("stdout", execution.stdout))
    return supported


def decode_repairs(execution: Execution) -> dict[tuple[str, str], PluginError | None]:
    """Return the answers of one REPAIR for many attachments, by container ID and interface name; None is a success.

    A plugin without such a REPAIR answers for none. Raises PluginError for a failed plugin.
    """
    require_success(execution)
    answer = _folded(printed_json(execution.stdout)) or {}
    listed = answer.get("attachments")
    answers: dict[tuple[str, str], PluginError | None] = {}
    for each in listed if isinstance(listed, list) else []:
        match each:
            case {"containerID": str(container_id), "ifname": str(ifname), "error": dict(error)}:
                answers[container_id, ifname] = _own_error(execution, error)
            case {"containerID": str(container_id), "ifname": str(ifname)}:
                answers[container_id, ifname] = None
    return answers


def _failure(execution: Execution, msg: str, *, code: int = 0, details: str = "") -> PluginError:
    return PluginError(execution.plugin, execution.verb, msg, code=code, details=details)


def _own_error(execution: Execution, reported: Mapping[str, object], note: str = "") -> PluginError:
    code, msg, details = reported.get("code"), reported.get("msg"), reported.get("details")
    return _failure(
        execution,
        f"{msg if isinstance(msg, str) and msg else 'no error message'}{note}",
        code=code if isinstance(code, int) else 0,
        details=details if isinstance(details, str) else "",
    )


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:  # a real-time signal
        return f"signal {-exit_code}"


def printed_json(output: bytes) -> object:
    """Return the only JSON document of an output, None for any other output."""
    try:
        return decode_output(output)
    except ValueError:
        return None


def _folded(document: object) -> dict[str, object] | None:
    """Return an object with its keys in lower case, as Go's decoder reads them; None for any other document."""
    if not isinstance(document, dict):
        return None
    return {key.lower(): value for key, value in document.items()}


def _said(stream: str, output: bytes) -> str:
    quoted = _quoted(output)
    return f"{stream}: {quoted}" if quoted else ""


def _quoted(output: bytes) -> str:
    text = output.decode(errors="replace").strip()
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"
