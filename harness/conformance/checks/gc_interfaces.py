"""GC: attachments of one container, whose interfaces tell them apart: each in the list stays, any other one goes."""

from typing import Final

from harness.conformance import expect
from harness.conformance.catalogue import check
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.requests import TrialContainer
from harness.conformance.trial import Trial
from harness.snapshot import Difference, Snapshot
from skel.versions import VERB_SINCE

_SINCE: Final = VERB_SINCE["GC"]
_FIREWALLS: Final = ("nft ", "iptables ")


@check("gc-keeps-every-interface", "gc-valid-attachments", since=_SINCE, attachments=2)
def keeps_every_interface(trial: Trial) -> None:
    """GC leaves everything of a container whose two attachments are both in the list."""
    second = trial.second_interface()
    trial.attach()
    _attach_also(trial, second)
    before = trial.snapshot()
    expect.succeeded(trial.gc(trial.container, second))
    trial.demand_same(before, trial.snapshot(), f"after GC with {_in_words(trial.container, second)} in its list")


@check("gc-keeps-second-interface", "gc-valid-attachments", since=_SINCE, attachments=2)
def keeps_second_interface(trial: Trial) -> None:
    """GC leaves a container's second interface if that is in the list, and the first one is not."""
    second = trial.second_interface()
    trial.attach(second)
    alone = trial.snapshot()
    _attach_also(trial, trial.container)
    beside = trial.snapshot()
    expect.succeeded(trial.gc(second))
    after = trial.snapshot()
    # Both together may share a thing of another form, such as one route with two next hops.
    gone = [each for each in _gone(trial, alone, after) if each in _gone(trial, beside, after)]
    if gone:
        raise ViolationError(f"all of {second.ifname}, which is in the list, after GC", "; ".join(gone))


@check(
    "gc-removes-stale-interface",
    "gc-removes-stale",
    "gc-removes-reservations",
    since=_SINCE,
    attachments=2,
    needs=("delegate-gc", "gc-removes-stale"),
)
def removes_stale_interface(trial: Trial) -> None:
    """GC removes the reservations and rules of a container's second interface, if the first one alone is in the list.

    The interface itself may stay: a plugin may assume that the namespace was deleted.
    """
    second = trial.second_interface()
    trial.attach()
    trial.prepare(second)
    before = trial.snapshot()
    _attach_also(trial, second)
    if not _kept_on_node(trial.leftovers(before, trial.snapshot())):
        raise NotApplicableError("a second interface has neither a reservation nor a rule of its own")
    expect.succeeded(trial.gc(trial.container))
    left = _kept_on_node(trial.leftovers(before, trial.snapshot()))
    if left:
        raise ViolationError(f"nothing of {second.ifname}, which is not in the list, after GC", "; ".join(left))


def _attach_also(trial: Trial, container: TrialContainer) -> None:
    if trial.add(container).exit_code != 0:
        raise NotApplicableError("the plugin gives a container no second interface, which it may refuse")


def _in_words(*containers: TrialContainer) -> str:
    return " and ".join(each.ifname for each in containers)


def _gone(trial: Trial, before: Snapshot, after: Snapshot) -> list[str]:
    return [each.in_words() for each in trial.leftovers(before, after) if each.kind == "disappeared"]


def _kept_on_node(left: list[Difference]) -> list[str]:
    """Return in words the records in files, and the rules and sets of the node's firewall."""
    return [
        each.in_words()
        for each in left
        if each.kind != "disappeared"
        and (each.place == "files" or (each.place == "node" and each.thing.startswith(_FIREWALLS)))
    ]
