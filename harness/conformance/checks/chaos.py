"""Leftovers of an ADD that was killed."""

from harness.conformance.catalogue import check
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import ViolationError

_SHOWN = 3


@check("killed-add", "habit-killed-add", attachments=2)
def killed_add(trial: Trial) -> str:
    """DEL and GC clean up after an ADD that was killed, at any point of its work."""
    chaos = kill_adds(trial.subject, state_dir=trial.site.state_dir, options=trial.options)
    if chaos.leaks:
        shown = [f"at {kill.point}: {'; '.join(kill.leaked)}" for kill in chaos.leaks[:_SHOWN]]
        raise ViolationError("nothing left after each kill, DEL and GC", f"{chaos}; {'; '.join(shown)}")
    return str(chaos)
