"""DEL: that it removes the objects of ADD and nothing else, whatever is missing by then, or is invalid."""

import json
from typing import Final, Unpack

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import added_processes, settled_processes
from harness.conformance.engine.failing_adds import exhaust_addresses, fail_at_route
from harness.conformance.engine.kernel import routes
from harness.conformance.engine.outside_changes import (
    attach_and_vanish,
    demand_no_device,
    demand_of_others,
    lose_files,
    lose_interface,
    lose_namespace,
    prepare_all,
    take_interface,
    untouched_by_any,
)
from harness.conformance.engine.requests import ABSENT, Changes
from harness.conformance.engine.sequences import attach_also, demand_no_more, unusual_leftovers
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD, Profile
from skel.versions import VERB_SINCE

_INTERFACE: Final = {Profile.INTERFACE}
_OF_NO_NETNS: Final = ("del-best-effort", "del-ipam-without-netns", "del-delegates-without-netns")
_WITHOUT_NETNS: Final = ("del-netns-gone",)
_USUAL_TABLES: Final = (254, 255)
"""The tables main and local, by their numbers (rtnetlink(7))."""
_CORRUPT: Final = (
    "no object at all",
    ["a list"],
    {"ips": [{"address": "no address"}]},
    {"ips": "no list", "interfaces": 7},
    {"cniVersion": "7.0.0", "ips": []},
)
"""Previous results that are invalid."""


@check("del-undoes-add", "del-undoes")
def undoes_add(trial: Trial) -> None:
    """DEL leaves the node and the container as they were before ADD."""
    prepare_all(trial)
    with trial.unchanged("after ADD and DEL"):
        trial.attach()
        expect.succeeded(trial.delete())


@check("del-leaves-no-routes", "del-undoes")
def leaves_no_routes(trial: Trial) -> None:
    """DEL of the first container leaves no route on the node in a further table: later containers would find it."""
    trial.prepare(trial.container)
    before = _routes_in_tables(trial)
    trial.attach()
    expect.succeeded(trial.delete())
    expect.nothing(_routes_in_tables(trial) - before, "no route in a further table after ADD and DEL")


def _routes_in_tables(trial: Trial) -> set[str]:
    """Return the node's routes outside of the tables main and local that a program has made."""
    there = [each for each in routes(trial.node_netns) if each.made and each.table not in _USUAL_TABLES]
    return {f"{each.dst} dev {each.dev} table {each.table}" for each in there}


@check("del-leaves-no-process", "del-undoes")
def leaves_no_process(trial: Trial) -> None:
    """DEL ends the processes that ADD has started for this container alone."""
    trial.warm_up()
    # The processes that all containers share are running now. They may be restarted, but not become more.
    before = settled_processes(trial)
    trial.come_and_go()
    expect.no_difference(added_processes(trial, before), "no process of its own after ADD and DEL")


@check("del-twice", "del-repeated")
def twice(trial: Trial) -> None:
    """DEL of an attachment that was deleted already succeeds, and changes nothing."""
    trial.attach()
    expect.succeeded(trial.delete())
    with trial.unchanged("after a second and a third DEL"):
        for number in ("second", "third"):
            expect.succeeded(trial.delete(), f"a {number} DEL")


@check("del-never-added", "del-repeated", needs=("del-twice",))
def never_added(trial: Trial) -> None:
    """DEL of an attachment that was never added succeeds, and changes nothing on the node or in another container."""
    other = trial.new_container()
    trial.attach(other)
    with trial.unchanged("after DEL of what was never added", other):
        expect.succeeded(trial.delete(), "DEL of what was never added")


@check("del-on-new-node", "del-repeated", "del-best-effort", needs=("del-twice", "del-never-added"))
def on_new_node(trial: Trial) -> None:
    """DEL succeeds on a node without any ADD before, and so does the ADD that follows."""
    expect.succeeded(trial.delete(), "DEL on a node that has seen no ADD")
    trial.attach()


@check("del-netns-gone", *_OF_NO_NETNS)
def netns_gone(trial: Trial) -> None:
    """DEL succeeds and leaves nothing on the node if the path in CNI_NETNS does not exist any more."""
    _delete_without_namespace(trial, "after DEL without the namespace")


@check("del-netns-empty", *_OF_NO_NETNS, needs=_WITHOUT_NETNS)
def netns_empty(trial: Trial) -> None:
    """DEL succeeds and leaves nothing on the node if the namespace is gone and CNI_NETNS is empty."""
    _delete_without_namespace(trial, "after DEL with CNI_NETNS empty", environ={"CNI_NETNS": ""})


@check("del-netns-unset", *_OF_NO_NETNS, needs=_WITHOUT_NETNS)
def netns_unset(trial: Trial) -> None:
    """DEL succeeds and leaves nothing on the node if the namespace is gone and CNI_NETNS is not set."""
    _delete_without_namespace(trial, "after DEL without CNI_NETNS", environ={"CNI_NETNS": ABSENT})


@check(
    "del-nothing-known",
    "del-best-effort",
    "del-without-prev-result",
    since=VERB_SINCE["CHECK"],
    needs=(*_WITHOUT_NETNS, "del-without-prev-result"),
)
def nothing_known(trial: Trial) -> None:
    """DEL leaves nothing on the node if it gets neither a namespace nor a previous result."""
    environ = {"CNI_NETNS": ""}
    _delete_without_namespace(trial, "after DEL with no more than the names", environ=environ, prev_result=ABSENT)


@check("del-interface-gone", "del-repeated", profiles=IN_POD, needs=("del-twice",))
def interface_gone(trial: Trial) -> None:
    """DEL succeeds if another program has removed the interface from the container."""
    trial.attach()
    take_interface(trial)
    expect.succeeded(trial.delete(), "DEL of an interface that is gone")


@check("del-interface-gone-leaves-nothing", "del-best-effort", "del-delegates-without-netns", profiles=IN_POD)
def interface_gone_leaves_nothing(trial: Trial) -> None:
    """DEL leaves nothing if another program has removed the interface from the container."""
    before = untouched_by_any(trial)
    if trial.subject.before:
        trial.prepare(trial.container)
        take_interface(trial)
        demand_of_others(trial, before, trial.container)
    trial.attach()
    demand_no_device(trial, trial.container)
    take_interface(trial)
    trial.delete()
    trial.detach_others(trial.container)
    demand_no_more(trial, before, "after DEL of an interface that is gone")


@check("del-host-interfaces-gone", "del-best-effort", profiles=_INTERFACE, since="0.3.0")
def host_interfaces_gone(trial: Trial) -> None:
    """DEL succeeds if another program has removed the result's interfaces from the node, and releases the rest."""
    before = trial.snapshot()
    hosts = [each.name for each in trial.attach().interfaces if not each.sandbox]
    if not [name for name in hosts if lose_interface(trial, trial.node_netns, name)]:
        raise NotApplicableError("the result has no interfaces of the node, or none that can be removed")
    expect.succeeded(trial.delete(), "DEL after the result's interfaces were removed from the node")
    after = trial.snapshot()
    new = [each for each in trial.leftovers(before, after) if (each.place, each.thing) == ("pod", "link")]
    left = (each.name for each in unusual_leftovers(trial, new) if each.kind == "appeared")
    expect.nothing(left, "no interface in the container after DEL")


@check("del-files-gone", "del-best-effort")
def files_gone(trial: Trial) -> None:
    """DEL succeeds and undoes the rest if everything in the node's /var/lib/cni was lost.

    A former value of the container may have been known to a lost record alone. It then cannot be restored, and the
    changed value ends with the container.
    """
    before = untouched_by_any(trial)
    trial.attach()
    if not lose_files(trial):
        raise NotApplicableError("the plugin keeps nothing in /var/lib/cni")
    expect.succeeded(trial.delete(), "DEL after the files in /var/lib/cni were lost")
    trial.detach_others(trial.container)
    left = [
        each
        for each in trial.leftovers(before, trial.snapshot())
        if each.place != "files" and (each.place, each.kind) != ("pod", "changed")
    ]
    unusual = unusual_leftovers(trial, left)
    expect.no_difference(unusual, "a node as it was before ADD, but for files and changed values")


@check("del-leaves-other-containers", "del-undoes", attachments=2)
def leaves_other_containers(trial: Trial) -> None:
    """DEL of one container leaves everything that belongs to another one."""
    trial.warm_up()  # the first DEL of a plugin before may make things that pods share
    trial.attach()
    before = trial.snapshot()
    trial.come_and_go(trial.new_container())
    demand_no_more(trial, before, "after ADD and DEL of another container")


@check("del-leaves-other-interface", "del-undoes", profiles=GIVING_ADDRESSES)
def leaves_other_interface(trial: Trial) -> None:
    """DEL of one interface leaves the container's other interface of the same network."""
    second = trial.second_interface()
    trial.attach()
    before = trial.snapshot()
    attach_also(trial, second)
    trial.detach(second)
    demand_no_more(trial, before, "after ADD and DEL of the container's other interface")


@check("del-after-failed-add", "del-undoes", "del-best-effort", profiles=IN_POD, since="0.3.0")
def after_failed_add(trial: Trial) -> None:
    """DEL after an ADD that failed late succeeds and leaves nothing."""
    prepare_all(trial)
    before = trial.snapshot()
    delegate = fail_at_route(trial)
    expect.succeeded(trial.delete(environ=delegate.environ), "DEL after a failed ADD")
    demand_no_more(trial, before, "after a failed ADD and its DEL")


@check("del-releases-address", "del-ipam-without-netns", "del-undoes", profiles=GIVING_ADDRESSES, needs=_WITHOUT_NETNS)
def releases_address(trial: Trial) -> None:
    """DEL without the namespace releases the address: if none was left, the next ADD gets it."""
    config, [first, *_] = exhaust_addresses(trial)
    # The kernel removes a namespace's interfaces later, and a macvlan defends its IPv6 address until then.
    lose_interface(trial, first.netns, first.ifname)
    lose_namespace(first)
    expect.succeeded(trial.delete(first, config=config), "DEL with the namespace gone")
    trial.delete(config=config)  # as after any failed ADD
    expect.succeeded(trial.add(config=config), "ADD when an address was given back")


def _delete_without_namespace(trial: Trial, when: str, **changes: Unpack[Changes]) -> None:
    trial.warm_up()
    unused = trial.new_container()
    before = trial.snapshot(unused)
    attach_and_vanish(trial, trial.container, before, unused)
    expect.succeeded(trial.delete(**changes), "DEL without the namespace")
    trial.detach_others(trial.container)
    demand_no_more(trial, before, when, unused)


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
    needs=("del-without-prev-result",),
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
