"""CHECK: single losses that it reports, of an address, a route, a rule and the like."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, Unpack

from harness.conformance.catalogue import check
from harness.conformance.checks.verb_check import LOOKS, OTHER_MAC
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import (
    Qdisc,
    added_firewall_entries,
    added_qdiscs,
    firewall_entries,
    own_addresses,
    own_interface,
    own_routes,
    remove_firewall_entries,
    remove_qdisc,
    remove_route,
    result_copy,
    set_mac,
)
from harness.conformance.engine.delegates import recording
from harness.conformance.engine.kernel import Address
from harness.conformance.engine.outside_changes import command, lose_interface, prepare_all, succeeds
from harness.conformance.engine.requests import Changes, TrialContainer
from harness.conformance.engine.sequences import clean_up
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.subject import IN_POD, Profile
from skel.result import Route

_Thing = TypeVar("_Thing")

_INTERFACE: Final = {Profile.INTERFACE}
_LIMITS: Final = {f"{direction}{what}": 8_000_000 for direction in ("ingress", "egress") for what in ("Rate", "Burst")}
"""In bits per second, and in bits."""


@check("check-address-missing", "check-finds-missing", profiles=IN_POD, needs=LOOKS)
def address_missing(trial: Trial) -> None:
    """CHECK fails if an address of the result is gone from the container's interface."""

    def lose(container: TrialContainer, address: Address) -> bool:
        return succeeds(trial, container.netns, "ip", "address", "del", str(address), "dev", container.ifname)

    if not _demand_each_found(trial, lambda container: own_addresses(trial, container), lose, "the address {}"):
        raise NotApplicableError("the plugin gives the container's interface no address")


@check("check-route-missing", "check-finds-missing", profiles=IN_POD, needs=LOOKS)
def route_missing(trial: Trial) -> None:
    """CHECK fails if a route of the result is gone from the container."""

    def lose(container: TrialContainer, route: Route) -> bool:
        return remove_route(trial, container, route)

    if not _demand_each_found(trial, lambda container: own_routes(trial, container), lose, "the route to {0.dst}"):
        raise NotApplicableError("the plugin makes no route that is in its result")


@check("check-interface-down", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def interface_down(trial: Trial) -> None:
    """CHECK fails if the container's interface was set down, and so is unusable."""
    trial.attach()
    netns, ifname = trial.container.netns, trial.container.ifname
    is_up = "UP" in command(trial, netns, "ip", "-oneline", "link", "show", "up", "dev", ifname).stdout
    if not is_up or not succeeds(trial, netns, "ip", "link", "set", "dev", ifname, "down"):
        raise NotApplicableError("the interface is not up after ADD, or cannot be set down")
    expect.failed(trial.check(), f"{ifname} is down")


@check("check-interface-other-mac", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def interface_other_mac(trial: Trial) -> None:
    """CHECK fails if the container's interface has another hardware address than the result has."""
    trial.attach()
    own_interface(trial, result_copy(trial))
    set_mac(trial, OTHER_MAC)
    expect.failed(trial.check(), f"{trial.container.ifname} has another hardware address than prevResult says")


@check("check-host-interface-missing", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def host_interface_missing(trial: Trial) -> None:
    """CHECK fails if an interface of the result is gone from the node."""
    before = trial.snapshot().section("node", "links")
    names = [each.name for each in trial.attach().interfaces if not each.sandbox and each.name not in before]
    lost = next((name for name in names if lose_interface(trial, trial.node_netns, name)), None)
    if lost is None:
        raise NotApplicableError("the result has no interface of the node that ADD made, or none that can be removed")
    expect.failed(trial.check(), f"{lost}, which the result has, is gone from the node")


@check("check-rule-missing", "check-finds-untracked-missing", needs=LOOKS)
def rule_missing(trial: Trial) -> None:
    """CHECK fails if ADD's entries in the firewall are gone."""
    prepare_all(trial)
    before = firewall_entries(trial)
    trial.attach()
    things = added_firewall_entries(before, firewall_entries(trial))
    if not things:
        raise NotApplicableError("ADD puts nothing into the firewall")
    remove_firewall_entries(trial, things)
    expect.failed(trial.check(), f"what ADD put into the firewall is gone ({len(things)} things)")


@check("check-qdisc-missing", "check-finds-shaping-missing", profiles=IN_POD, needs=LOOKS)
def qdisc_missing(trial: Trial) -> None:
    """CHECK fails if a queueing discipline that ADD has made is gone."""
    asked = "bandwidth" in trial.subject.plugin.capabilities
    config = {"runtimeConfig": {"bandwidth": _LIMITS}} if asked else {}
    trial.warm_up()

    def lose(_: TrialContainer, qdisc: Qdisc) -> bool:
        return remove_qdisc(trial, qdisc)

    words = "the queueing discipline {0.name}"
    if not _demand_each_found(trial, lambda container: _shaped(trial, container, config), lose, words, config=config):
        raise NotApplicableError("ADD makes no queueing discipline, or none that can be removed")


def _demand_each_found(
    trial: Trial,
    attach: Callable[[TrialContainer], Sequence[_Thing]],
    lose: Callable[[TrialContainer, _Thing], bool],
    words: str,
    **changes: Unpack[Changes],
) -> bool:
    """Demand that CHECK fails for each thing that is lost, each in a container of its own; tell whether there is one.

    `attach` returns the things that a container has from the plugin; `words` is a format that names one of them.
    """
    found = False
    count = len(attach(trial.container))
    clean_up(trial, trial.container)
    for number in range(count):
        container = trial.new_container()
        for thing in attach(container)[number : number + 1]:
            if lose(container, thing):
                found = True
                expect.failed(trial.check(container, **changes), f"{words.format(thing)} is gone from the container")
        clean_up(trial, container)
    return found


def _shaped(trial: Trial, container: TrialContainer, config: Mapping[str, object]) -> list[Qdisc]:
    """Attach a container, and return the queueing disciplines that it has from the plugin under test."""
    trial.prepare(container)
    before = trial.snapshot(container)
    expect.result(trial.add(container, config=config), trial.version)
    return added_qdiscs(trial, container, before, trial.snapshot(container))


@check(
    "check-reservation-missing",
    "check-finds-untracked-missing",
    "check-delegates",
    profiles=IN_POD,
    needs=(*LOOKS, "delegate-check"),
)
def reservation_missing(trial: Trial) -> None:
    """CHECK fails if the delegate has released the addresses."""
    delegate = recording(trial)
    expect.succeeded(trial.add(environ=delegate.environ))
    expect.succeeded(delegate.ask_real(trial, "DEL"), "DEL of the delegate itself")
    if delegate.ask_real(trial, "CHECK").exit_code == 0:
        raise NotApplicableError("the delegate itself has nothing to find missing")
    expect.failed(trial.check(), "the delegate has released its addresses, and says so itself")
