"""The node's other work: ADD, DEL and GC leave its policies, rules, routes, addresses and parameters alone."""

from typing import Final

from harness.conformance import expect
from harness.conformance.bystanders import give_work, losses
from harness.conformance.catalogue import check
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.sentences import Level
from harness.conformance.traffic import answered
from harness.conformance.trial import Trial
from harness.snapshot import Difference, Snapshot
from skel.versions import VERB_SINCE

_PORT: Final = 8080
_EXPECTED: Final = "what the node had for its other work as it was"


# Forwarding is on already, so that a plugin that turns it on changes nothing.
@check("add-keeps-node", "add-interface")
def add_keeps_node(trial: Trial) -> None:
    """ADD leaves the node's own firewall policies and rules, routes, addresses and parameters as they were."""
    before = _at_work(trial)
    trial.attach()
    _demand_kept(losses(trial, before, trial.snapshot()), "after ADD")


@check("add-keeps-forwarding", "add-interface")
def add_keeps_forwarding(trial: Trial) -> None:
    """Packets that the node forwards between other machines still arrive after ADD."""
    first, second = give_work(trial, policy="accept")
    if not answered(second.netns, _PORT, first.netns, second.address, _PORT):
        raise NotApplicableError("the node forwards nothing between two machines before ADD, either")
    trial.attach()
    if not answered(second.netns, _PORT, first.netns, second.address, _PORT):
        raise ViolationError("packets that the node forwards between two machines to arrive after ADD", "none arrives")


@check("del-keeps-node", "del-undoes")
def del_keeps_node(trial: Trial) -> None:
    """DEL of the last container leaves the node's own policies, rules, routes, addresses and parameters alone."""
    before = _at_work(trial)
    trial.attach()
    changed_by_add = {(each.thing, each.name) for each in losses(trial, before, trial.snapshot())}
    expect.succeeded(trial.delete())
    left = losses(trial, before, trial.snapshot())
    _demand_kept([each for each in left if (each.thing, each.name) not in changed_by_add], "after ADD and DEL")


@check("gc-keeps-node", "gc-only-stale", since=VERB_SINCE["GC"], level=Level.SHOULD)
def gc_keeps_node(trial: Trial) -> None:
    """GC leaves the node's own firewall policies and rules, routes, addresses and parameters as they were."""
    before = _at_work(trial)
    trial.gc()
    _demand_kept(losses(trial, before, trial.snapshot()), "after GC")


def _at_work(trial: Trial) -> Snapshot:
    """Give the node other work, have the plugins before the one under test do theirs, and return the state."""
    give_work(trial, policy="drop")
    trial.prepare(trial.container)
    return trial.snapshot()


def _demand_kept(lost: list[Difference], when: str) -> None:
    if lost:
        raise ViolationError(f"{_EXPECTED}, {when}", "; ".join(each.in_words() for each in lost))
