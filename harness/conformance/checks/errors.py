"""Errors: the exit code, and the error object of SPEC.md section 5."""

import json
from collections.abc import Sequence
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT, json_object
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.libcni.execute import Execution
from skel.versions import at_least

_WELL_KNOWN: Final = {1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51}
"""SPEC.md's, and 8, an unfit namespace, which the library of the reference plugins has besides."""
_SAME_VERSION_SINCE: Final = "1.0.0"
"""Before, an error has the version that the plugin uses, and not always that of the configuration."""
_FREE_FROM: Final = 100
"""SPEC.md, section 5: values of 100 and more are free for plugins."""


@check("error-exit-code", "exit-code")
def error_exit_code(trial: Trial) -> None:
    """ADD of a configuration that cannot be read does not end with exit code 0, nor does an error object."""
    expect.failed(trial.add(stdin=b'{"cniVersion":"1.1.0","name":'), "the configuration is cut off in the middle")
    for execution in _faulty_requests(trial):
        said = json_object(execution.stdout) or {}
        if execution.exit_code == 0 and "code" in said and "msg" in said:
            raise ViolationError("another exit code than 0 with an error object", expect.ending(execution), execution)


@check("error-object", "error-structure", "error-keys", "error-code", "error-msg", "skel-error-on-stdout")
def error_object(trial: Trial) -> None:
    """An error is one JSON object on standard output, with a code and a msg."""
    for execution in _failures(trial):
        expect.refused(execution, f"it ended with exit code {execution.exit_code}")


@check("error-cni-version", "error-version")
def error_cni_version(trial: Trial) -> None:
    """An error object has a cniVersion: from 1.0.0 on that of the configuration, if the configuration can be read."""
    for execution in _failures(trial):
        version = expect.refused(execution, "it has failed").get("cniVersion")
        if not isinstance(version, str) or not version:
            raise ViolationError("a version as cniVersion in the error", json.dumps(version), execution)
    if not at_least(trial.version, _SAME_VERSION_SINCE):
        return
    execution = trial.add(config={"name": ABSENT, "ipam": "none"})
    if execution.exit_code == 0:
        return
    version = expect.refused(execution, "it has failed").get("cniVersion")
    if version != trial.version:
        raise ViolationError(f'"cniVersion": "{trial.version}" in the error', json.dumps(version), execution)


@check("error-code-reserved", "error-codes-reserved")
def error_code_reserved(trial: Trial) -> None:
    """The code of an error is one of the well-known ones, or 100 and more."""
    for execution in _failures(trial):
        code = expect.refused(execution, "it has failed")["code"]
        if isinstance(code, int) and code not in _WELL_KNOWN and code < _FREE_FROM:
            raise ViolationError("a well-known code, or one from 100 on", str(code), execution)


@check("error-exit-code-one", "skel-error-on-stdout")
def error_exit_code_one(trial: Trial) -> None:
    """The exit code of an error is 1, whatever the code in the error object."""
    for execution in _failures(trial):
        if execution.exit_code != 1:
            raise ViolationError("exit code 1", expect.ending(execution), execution)


def _faulty_requests(trial: Trial) -> Sequence[Execution]:
    """Execute requests that most plugins refuse: a missing variable, an unreadable configuration, an unfit value."""
    return [
        trial.add(stdin=b'{"cniVersion":"1.1.0","name":'),
        trial.add(environ={"CNI_CONTAINERID": ABSENT}),
        trial.add(environ={"CNI_COMMAND": "RENAME"}),
        trial.add(config={"name": ABSENT}),
        trial.add(config={"name": "../net"}),
        trial.add(version="99.0.0"),
    ]


def _failures(trial: Trial) -> Sequence[Execution]:
    """Return the faulty requests that failed. Raises NotApplicableError if none failed."""
    found = [execution for execution in _faulty_requests(trial) if execution.exit_code != 0]
    if not found:
        raise NotApplicableError("it has found fault with nothing")
    return found
