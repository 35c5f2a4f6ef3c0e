"""DEL with a previous result that is absent or invalid."""

import json
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.outside_changes import untouched_by_any
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import demand_no_more
from harness.conformance.engine.trial import Trial
from skel.versions import VERB_SINCE

_WITHOUT_RESULT: Final = ("del-without-prev-result",)
_CORRUPT: Final = (
    "no object at all",
    ["a list"],
    {"ips": [{"address": "no address"}]},
    {"ips": "no list", "interfaces": 7},
    {"cniVersion": "7.0.0", "ips": []},
)


@check("del-without-prev-result", "del-without-prev-result")
def without_prev_result(trial: Trial) -> None:
    """DEL succeeds without prevResult, with null, and with one that has only its version."""
    for given in (ABSENT, None, {"cniVersion": trial.version}):
        container = trial.new_container()
        trial.attach(container)
        what = "without prevResult" if given is ABSENT else f'with "prevResult": {json.dumps(given)}'
        expect.succeeded(trial.delete(container, prev_result=given), f"DEL {what}")
        trial.detach_others(container)


@check(
    "del-without-prev-result-leaves-nothing",
    "del-undoes",
    "del-best-effort",
    since=VERB_SINCE["CHECK"],
    needs=_WITHOUT_RESULT,
)
def without_prev_result_leaves_nothing(trial: Trial) -> None:
    """DEL leaves nothing if it gets no previous result."""
    before = untouched_by_any(trial)
    trial.attach()
    trial.delete(prev_result=ABSENT)
    trial.detach_others(trial.container)
    demand_no_more(trial, before, "after DEL without prevResult")


@check("del-corrupt-prev-result", "del-best-effort", since=VERB_SINCE["CHECK"])
def corrupt_prev_result(trial: Trial) -> None:
    """DEL with an invalid previous result either cleans up, or is refused and leaves it to the next DEL."""
    untouched_by_any(trial)
    for given in _CORRUPT:
        container = trial.new_container()
        before = trial.snapshot(container)
        trial.attach(container)
        deleted = trial.delete(container, prev_result=given)
        if deleted.exit_code != 0:
            expect.refused(deleted, f"prevResult is {given!r}")
            expect.succeeded(trial.delete(container), "DEL after one with a corrupt prevResult")
        trial.detach_others(container)
        demand_no_more(trial, before, f"after DEL with prevResult {given!r}", container)
