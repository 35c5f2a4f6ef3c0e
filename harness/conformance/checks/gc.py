"""GC: it removes stale resources and keeps valid ones, in every form of the list; interfaces tell attachments apart."""

from typing import Final
from uuid import uuid4

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.delegates import FAILURE, recording
from harness.conformance.engine.outside_changes import attach_and_vanish, demand_no_device, lose_namespace
from harness.conformance.engine.requests import ABSENT, TrialContainer
from harness.conformance.engine.sequences import attach_also, demand_soon_same
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.sentences import Level
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD
from harness.overload import once
from harness.snapshot import Difference, Snapshot
from skel.versions import VERB_SINCE

_SINCE: Final = VERB_SINCE["GC"]
_OF_THE_SPEC: Final = "cni.dev/valid-attachments"
_OF_LIBCNI: Final = "cni.dev/attachments"
_FORWARDS: Final = "delegate-gc"
_COLLECTS: Final = (_FORWARDS, "gc-removes-stale")
"""The checks that fail for a plugin without GC."""
_SETTLING: Final = 2.0
"""Seconds for the kernel to take the links of a namespace away."""
_OF_STALE: Final = ("gc-removes-stale", "gc-removes-reservations")
_FIREWALLS: Final = ("nft ", "iptables ")


@check("gc-keeps-valid", "gc-valid-attachments", attachments=2)
def keeps_valid(trial: Trial) -> None:
    """GC leaves everything that belongs to the attachments in its list."""
    other = trial.new_container()
    trial.attach()
    trial.attach(other)
    with trial.unchanged("after GC with all attachments in its list", trial.container, other):
        expect.succeeded(trial.gc(trial.container, other))


@check("gc-removes-stale", *_OF_STALE, attachments=2, needs=(_FORWARDS,))
def removes_stale(trial: Trial) -> None:
    """GC removes the leftovers of an attachment that is not in its list, and leaves the one that is."""
    before = _with_stale(trial)
    expect.succeeded(trial.gc(trial.container))
    demand_soon_same(trial, before, "as without the attachment whose container is gone, after GC")


@check("gc-empty-list", *_OF_STALE, needs=_COLLECTS)
def empty_list(trial: Trial) -> None:
    """GC with an empty list removes the leftovers of every attachment."""
    trial.warm_up()
    unused = trial.new_container()
    before = trial.snapshot(unused)
    _leave_stale(trial, before, unused)
    expect.succeeded(trial.gc())
    demand_soon_same(trial, before, "after GC with an empty list, whose containers are gone", unused)


@check("gc-spelling-of-spec", "gc-valid-attachments", "gc-removes-stale", attachments=2, needs=_COLLECTS)
def spelling_of_spec(trial: Trial) -> None:
    """GC reads the list under the specification's key alone."""
    _under_one_key(trial, _OF_THE_SPEC, _OF_LIBCNI)


@check("gc-spelling-of-libcni", "habit-gc-both-spellings", since=_SINCE, attachments=2, needs=_COLLECTS)
def spelling_of_libcni(trial: Trial) -> None:
    """GC reads the list under libcni's other key alone, too."""
    _under_one_key(trial, _OF_LIBCNI, _OF_THE_SPEC)


@check("gc-without-list", "habit-gc-no-list", since=_SINCE)
def without_list(trial: Trial) -> None:
    """GC without a list removes nothing: a missing list does not make attachments stale."""
    trial.attach()
    with trial.unchanged("after GC without a list"):
        trial.gc(config={_OF_THE_SPEC: ABSENT, _OF_LIBCNI: ABSENT})


@check("gc-keeps-other-network", "gc-valid-attachments", "gc-only-stale")
def keeps_other_network(trial: Trial) -> None:
    """GC of one network leaves the attachments of another one."""
    other_network = {"name": f"{trial.subject.network.name}-2"}
    expect.succeeded(trial.add(config=other_network), "ADD to a network of another name")
    with trial.unchanged("after GC of another network"):
        expect.succeeded(trial.gc())


@check("gc-keeps-other-interface", "gc-valid-attachments", profiles=GIVING_ADDRESSES)
def keeps_other_interface(trial: Trial) -> None:
    """GC tells a container's attachments apart by their interfaces: the one in the list stays."""
    second = trial.second_interface()
    trial.attach()
    first = trial.snapshot()
    attach_also(trial, second)
    both = trial.snapshot()
    expect.succeeded(trial.gc(trial.container))
    after = trial.snapshot()
    gone = {(each.place, each.thing, each.name): each for each in _disappeared(trial, first, after)}
    if second.ifname in after.section("pod", "links"):
        # The second ADD may change things of the first: default routes of IPv6 become one of several paths.
        for each in _disappeared(trial, first, both):
            gone.pop((each.place, each.thing, each.name), None)
    expect.no_difference(gone.values(), "all of the attachment that is in the list, after GC")


@check("gc-of-nothing", "gc-without-error")
def of_nothing(trial: Trial) -> None:
    """GC succeeds on a node without any ADD before, and again."""
    for what in ("GC on a node that has seen no ADD", "a second GC"):
        expect.succeeded(trial.gc(), what)


@check("gc-then-del", "del-repeated", since=_SINCE)
def then_del(trial: Trial) -> None:
    """DEL succeeds after GC has removed the attachment's resources."""
    trial.warm_up()
    trial.attach()
    demand_no_device(trial, trial.container)
    lose_namespace(trial.container)
    trial.gc()
    deleted = trial.delete()
    if deleted.exit_code != 0:
        other = trial.new_container()
        trial.attach(other)
        lose_namespace(other)
        if trial.delete(other).exit_code != 0:
            raise NotApplicableError("DEL without the namespace fails anyway, which another check is about")
    expect.succeeded(deleted, "DEL after GC")


@check("gc-then-add", "gc-only-stale", level=Level.SHOULD, attachments=2)
def then_add(trial: Trial) -> None:
    """ADD, CHECK and DEL go on working after GC."""
    _with_stale(trial)
    trial.gc(trial.container)
    expect.succeeded(trial.check(), "CHECK of a valid attachment after GC")
    trial.attach(trial.new_container())
    trial.detach()


@check("gc-goes-on-past-errors", "gc-continues", profiles=IN_POD, attachments=2, needs=_COLLECTS)
def goes_on_past_errors(trial: Trial) -> None:
    """GC whose delegate fails removes its own stale resources all the same, and reports the error."""
    delegate = recording(trial)
    before = _with_stale(trial)
    delegate.answer("GC", FAILURE._replace(after_real=True))
    collected = trial.gc(trial.container, environ=delegate.environ)
    demand_soon_same(trial, before, "after GC whose delegate failed in the end")
    expect.failed(collected, "the delegate's GC has failed")


def _disappeared(trial: Trial, before: Snapshot, after: Snapshot) -> list[Difference]:
    return [each for each in trial.leftovers(before, after) if each.kind == "disappeared"]


def _under_one_key(trial: Trial, key: str, other: str) -> None:
    before = _with_stale(trial)
    expect.succeeded(trial.gc(trial.container, config={other: ABSENT}), f'GC with its list under "{key}"')
    demand_soon_same(trial, before, f'as without the stale attachment, after GC with its list under "{key}" alone')


@check("gc-container-ids-whole", "gc-removes-stale", "gc-only-stale", attachments=2, needs=_COLLECTS)
def container_ids_whole(trial: Trial) -> None:
    """GC tells containers apart if the ID of one begins with the ID of the other."""
    for kept_ending, stale_ending in (("0", ""), ("", "0")):
        trial.warm_up()
        begin = uuid4().hex
        kept = trial.new_container(container_id=f"{begin}{kept_ending}")
        trial.attach(kept)
        before = trial.snapshot(kept)
        _leave_stale(trial, before, kept, stale_id=f"{begin}{stale_ending}")
        expect.succeeded(trial.gc(kept))
        demand_soon_same(trial, before, "as without the container that is gone, after GC", kept)
        trial.detach(kept)


def _with_stale(trial: Trial) -> Snapshot:
    """Attach the trial's container; return the state then, and have another one appear and vanish."""
    trial.warm_up()
    trial.attach()
    before = trial.snapshot()
    _leave_stale(trial, before, trial.container)
    return before


def _leave_stale(trial: Trial, before: Snapshot, seen: TrialContainer, stale_id: str = "") -> None:
    """Have a container appear and vanish without DEL. Raises NotApplicableError if that leaves nothing."""
    stale = trial.new_container(container_id=stale_id)
    attach_and_vanish(trial, stale, before, seen)
    trial.detach_others(stale)

    def has_no_link(left: list[Difference]) -> bool:
        return all(each.thing != "link" for each in left)

    if not once(lambda: trial.leftovers(before, trial.snapshot(seen)), has_no_link, _SETTLING):
        raise NotApplicableError("a container that vanishes leaves nothing on the node")


@check("gc-keeps-every-interface", "gc-valid-attachments", attachments=2)
def keeps_every_interface(trial: Trial) -> None:
    """GC leaves everything of a container whose two attachments are both in the list."""
    second = trial.second_interface()
    trial.attach()
    attach_also(trial, second)
    with trial.unchanged(f"after GC with {trial.container.ifname} and {second.ifname} in its list"):
        expect.succeeded(trial.gc(trial.container, second))


@check("gc-keeps-second-interface", "gc-valid-attachments", attachments=2)
def keeps_second_interface(trial: Trial) -> None:
    """GC leaves a container's second interface if that is in the list, and the first one is not."""
    second = trial.second_interface()
    trial.attach(second)
    alone = trial.snapshot()
    attach_also(trial, trial.container)
    beside = trial.snapshot()
    expect.succeeded(trial.gc(second))
    after = trial.snapshot()
    # Both together may share a thing of another form, such as one route with two next hops.
    beside_it = {each.in_words() for each in _disappeared(trial, beside, after)}
    gone = (each for each in _disappeared(trial, alone, after) if each.in_words() in beside_it)
    expect.no_difference(gone, f"all of {second.ifname}, which is in the list, after GC")


@check("gc-removes-stale-interface", *_OF_STALE, attachments=2, needs=_COLLECTS)
def removes_stale_interface(trial: Trial) -> None:
    """GC removes the reservations and rules of a container's second interface, if the first one alone is in the list.

    The interface itself may stay: a plugin may assume that the namespace was deleted.
    """
    second = trial.second_interface()
    trial.attach()
    trial.prepare(second)
    before = trial.snapshot()
    attach_also(trial, second)
    if not _kept_on_node(trial.leftovers(before, trial.snapshot())):
        raise NotApplicableError("a second interface has neither a reservation nor a rule of its own")
    expect.succeeded(trial.gc(trial.container))
    left = _kept_on_node(trial.leftovers(before, trial.snapshot()))
    expect.no_difference(left, f"nothing of {second.ifname}, which is not in the list, after GC")


def _kept_on_node(left: list[Difference]) -> list[Difference]:
    """Return the records in files, and the rules and sets of the node's firewall."""
    return [
        each
        for each in left
        if each.kind != "disappeared"
        and (each.place == "files" or (each.place == "node" and each.thing.startswith(_FIREWALLS)))
    ]
