"""Verbs without a result: DEL, CHECK, STATUS and GC that succeed print nothing."""

from harness.conformance import expect
from harness.conformance.catalogue import check
from harness.conformance.finding import ViolationError
from harness.conformance.trial import Trial
from harness.libcni.execute import Execution


@check("gc-says-nothing", "gc-output")
def gc_says_nothing(trial: Trial) -> None:
    """GC that succeeds prints nothing on standard output."""
    trial.attach()
    _demand_silence(trial.gc())


@check("verbs-say-nothing", "skel-no-output")
def verbs_say_nothing(trial: Trial) -> None:
    """DEL, CHECK and STATUS that succeed print nothing on standard output."""
    trial.attach()
    if trial.has("CHECK"):
        _demand_silence(trial.check())
    if trial.has("STATUS"):
        _demand_silence(trial.status())
    _demand_silence(trial.delete())


def _demand_silence(execution: Execution) -> None:
    expect.succeeded(execution)
    if execution.stdout.strip():
        raise ViolationError("nothing on standard output", execution.stdout.decode(errors="replace"), execution)
