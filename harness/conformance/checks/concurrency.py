"""Concurrency: many requests at once, on a new node, and beside other programs."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import previous_result
from harness.conformance.engine.kernel import links
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import addresses, as_before, shared_addresses
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, PredecessorError, ViolationError
from harness.conformance.subject import IN_POD, LOOPBACK, Profile
from harness.libcni.execute import Execution
from netlink.addresses import Loopback
from netlink.namespace import open_namespace
from skel.versions import VERB_SINCE

_AT_ONCE: Final = 16
_FEW: Final = 4
"""The number of attachments that the network must have room for."""
_AGAIN: Final = 5
"""Further runs of a check that fails: a race may be lost once, a missing lock always."""

R = TypeVar("R")


@check("parallel-add", "concurrent", "concurrent-locking", attachments=_FEW, repeats=_AGAIN)
def parallel_add(trial: Trial) -> None:
    """Sixteen ADDs at once, on a node without any ADD before, give each pod an interface and addresses of its own."""
    containers = _containers(trial, _AT_ONCE)
    attached = _add_all(trial, containers)
    _demand_complete(trial, attached)
    if trial.has("CHECK"):
        for container in attached:
            expect.succeeded(trial.check(container), "CHECK after parallel ADDs")


@check("parallel-delete", "concurrent", "concurrent-locking", attachments=_FEW, repeats=_AGAIN)
def parallel_delete(trial: Trial) -> None:
    """Sixteen DELs at once leave nothing of the objects of sixteen ADDs at once."""
    trial.warm_up()
    containers = _containers(trial, _AT_ONCE)
    watched, others = containers[:_FEW], containers[_FEW:]
    _detach_others(trial, containers)
    with as_before(trial, "after parallel ADDs and DELs", *watched):
        there = {container: links(container.netns).keys() for container in containers}
        _add_all(trial, containers)
        for execution in _at_once(trial.delete, containers):
            expect.succeeded(execution, "DEL beside other DELs")
        _detach_others(trial, others)
    left = {container: sorted(links(container.netns).keys() - there[container]) for container in containers}
    ordinary = max(len(left[container]) for container in watched)
    for container in others:
        if len(left[container]) > ordinary:
            expect.nothing(left[container], "no interface in the container after DEL beside other DELs")


@check("parallel-add-and-delete", "concurrent", "concurrent-locking", attachments=2 * _FEW, repeats=_AGAIN)
def parallel_add_and_delete(trial: Trial) -> None:
    """While some pods are added and others deleted, the added ones are complete, and the deleted ones leave nothing."""
    trial.warm_up()
    going, coming = _containers(trial, _FEW), _containers(trial, _FEW)
    _detach_others(trial, going + coming)
    with as_before(trial, "after DEL of all of them", *going, *coming):
        if len(_add_all(trial, going + coming)) < len(going + coming):
            raise NotApplicableError(f"the network has no room for {len(going + coming)} pods")
        for container in coming:
            trial.detach(container)
            trial.prepare(container)
        turns: dict[TrialContainer, Callable[[TrialContainer], Execution]] = dict.fromkeys(going, trial.delete)
        turns |= dict.fromkeys(coming, trial.add)
        mixed = [each for pair in zip(going, coming, strict=True) for each in pair]
        executions = _at_once(lambda container: turns[container](container), mixed)
        for execution in executions:
            expect.succeeded(execution, f"{execution.verb} while other pods come and go")
        added = dict(zip(mixed, executions, strict=True))
        attached = {each: added[each] for each in coming}
        _demand_complete(trial, attached)
        for execution in _at_once(trial.delete, coming):
            expect.succeeded(execution)


@check("parallel-check", "concurrent", since=VERB_SINCE["CHECK"], attachments=_FEW + 1, repeats=_AGAIN)
def parallel_check(trial: Trial) -> None:
    """CHECK of a pod succeeds while other pods are added and deleted."""
    others = _containers(trial, _FEW)
    trial.attach()

    def come_and_go(container: TrialContainer) -> list[Execution]:
        return [trial.add(container), trial.delete(container)]

    with ThreadPoolExecutor(_FEW) as pool:
        passing = [pool.submit(come_and_go, container) for container in others]
        while not all(each.done() for each in passing):
            expect.succeeded(trial.check(), "CHECK while other pods come and go")
    for each in passing:
        for execution in each.result():
            expect.succeeded(execution, f"{execution.verb} while another pod is checked")


@check("loopback-beside", "habit-concurrent-loopback", profiles=IN_POD, repeats=_AGAIN)
def loopback_beside(trial: Trial) -> None:
    """If another program sets the loopback interface up at the same time, it is neither missed nor touched."""
    _set_loopback(trial.container, up=False)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(_set_loopback, trial.container, up=True)
        result = expect.result(trial.add(), trial.version)
        other.result()
    if any(each.name == LOOPBACK and each.sandbox for each in result.interfaces):
        raise NotApplicableError("the loopback interface is the plugin's own")
    for verb, when in ((None, "after ADD"), (trial.delete, "after DEL")):
        if verb is not None:
            expect.succeeded(verb())
        with open_namespace(trial.container.netns) as namespace, Loopback(namespace) as loopback:
            if not loopback.is_up():
                expected = f"the loopback interface up, {when}, as the loopback plugin has set it"
                raise ViolationError(expected, "it is down")


def _containers(trial: Trial, count: int) -> list[TrialContainer]:
    """Return containers for the plugin under test: as many as the plugins before it have room for."""
    containers: list[TrialContainer] = []
    for _ in range(count):
        container = trial.new_container()
        try:
            trial.prepare(container)
        except PredecessorError:
            if len(containers) < _FEW:
                raise
            break
        containers.append(container)
    return containers


def _detach_others(trial: Trial, containers: Sequence[TrialContainer]) -> None:
    for container in containers:
        trial.detach_others(container)


def _at_once(verb: Callable[[TrialContainer], R], containers: Sequence[TrialContainer]) -> list[R]:
    with ThreadPoolExecutor(len(containers)) as pool:
        return list(pool.map(verb, containers))


def _add_all(trial: Trial, containers: Sequence[TrialContainer]) -> dict[TrialContainer, Execution]:
    """ADD all at once; one that fails has to fail on its own as well, for want of addresses."""
    for container in containers:
        trial.prepare(container)
    executions = dict(zip(containers, _at_once(trial.add, containers), strict=True))
    attached = {container: each for container, each in executions.items() if each.exit_code == 0}
    for container, execution in executions.items():
        if container in attached:
            continue
        trial.delete(container)
        if len(attached) < _FEW or trial.add(container).exit_code == 0:
            expect.succeeded(execution, f"ADD beside {len(containers) - 1} others", follows="parallel-add")
        trial.delete(container)
    return attached


def _demand_complete(trial: Trial, executions: Mapping[TrialContainer, Execution]) -> None:
    """Demand that the addresses of each pod are its own, and that it has the interfaces and addresses of its result.

    Interfaces and addresses of prevResult are not demanded: the plugins before have made them.
    """
    results = {container: expect.result(each, trial.version) for container, each in executions.items()}
    shared = shared_addresses(trial, map(addresses, results.values()))
    if shared and trial.subject.profile is not Profile.CHAINED:
        raise ViolationError("addresses of its own for each pod", f"given more than once: {', '.join(shared)}")
    if trial.subject.profile is Profile.IPAM:
        return
    for container, result in results.items():
        given, execution = previous_result(trial, container), executions[container]
        wanted = {each.name for each in result.interfaces if each.sandbox and each not in given.interfaces}
        if trial.subject.profile is Profile.INTERFACE:
            wanted.add(container.ifname)
        found = links(container.netns)
        if missing := sorted(wanted - found.keys()):
            raise ViolationError(f"{', '.join(missing)} in each pod after ADDs at once", f"{sorted(found)}", execution)
        there = {str(address.ip) for link in found.values() for address in link.addresses}
        if missing := sorted(set(addresses(result)) - set(addresses(given)) - there):
            raise ViolationError(f"{', '.join(missing)} in the pod that it was given to", f"{sorted(there)}", execution)


def _set_loopback(container: TrialContainer, *, up: bool) -> None:
    with open_namespace(container.netns) as namespace, Loopback(namespace) as loopback:
        (loopback.set_up if up else loopback.set_down)()
