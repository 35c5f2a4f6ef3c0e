"""Containers beside each other: the end of the first one leaves the later one's network, and its CHECK."""

from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.trial import Trial
from harness.conformance.subject import IN_POD

_OF_LINKS: Final = ("link", "address")


@check("del-keeps-later-containers", "del-undoes", profiles=IN_POD, attachments=2)
def keeps_later_containers(trial: Trial) -> None:
    """DEL of the container that was added first leaves a later one as it was, and its interfaces on the node."""
    later = trial.new_container()
    trial.attach()
    result = trial.attach(later)
    names = {each.name for each in result.interfaces if not each.sandbox}
    before = trial.snapshot(later)
    expect.succeeded(trial.delete())
    lost = (
        each
        for each in trial.leftovers(before, trial.snapshot(later))
        if each.place == "pod"
        or (each.kind != "appeared" and each.thing in _OF_LINKS and names & set(each.name.split()))
    )
    expect.no_difference(lost, "a container that was added later as it was, after DEL of the first")


@check("check-after-others-left", "check-probes", attachments=2)
def after_others_left(trial: Trial) -> None:
    """CHECK of a container succeeds after another one was deleted, whichever came first."""
    first, second = trial.container, trial.new_container()
    for container in (first, second):
        trial.attach(container)
    trial.detach(first)
    expect.succeeded(trial.check(second), "CHECK after DEL of a container that was added before")
    trial.come_and_go(trial.new_container())
    expect.succeeded(trial.check(second), "CHECK after DEL of a container that was added later")
