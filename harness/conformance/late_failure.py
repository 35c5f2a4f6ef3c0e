"""An ADD that fails late: the result of its delegate has a route that no kernel accepts."""

import json

from harness.conformance.course import let_go
from harness.conformance.delegates import Answer, Delegate, recording
from harness.conformance.finding import NotApplicableError
from harness.conformance.trial import Trial
from skel.strict_json import decode_output

_UNREACHABLE = {"dst": "203.0.113.0/24", "gw": "198.51.100.77"}


def failing_late(trial: Trial) -> Delegate:
    """Have the ADD of the trial's container fail once the interface has its addresses; the delegate stays for DEL.

    Raises NotApplicableError if the plugin has no delegate, or ignores the routes of its delegate.
    """
    delegate = recording(trial, named=True)
    other = trial.new_container()
    trial.add(other, environ=delegate.environ)
    let_go(trial, other)
    records = delegate.records("ADD")
    try:
        said = decode_output(records[-1].stdout) if records else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or not said.get("ips"):
        raise NotApplicableError("no address of a delegate to go by")
    said["routes"] = [*(said.get("routes") or []), _UNREACHABLE]
    delegate.answer("ADD", Answer(json.dumps(said), 0, after_real=True))
    failed = trial.add(environ=delegate.environ)
    if failed.exit_code == 0:
        raise NotApplicableError("a route to an unreachable gateway is no obstacle to the plugin")
    delegate.answer("ADD", None)
    return delegate
