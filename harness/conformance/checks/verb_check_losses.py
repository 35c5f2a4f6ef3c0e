"""CHECK: single losses that it reports, of an address, a route, a rule and the like; and that it only looks."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, Unpack

from harness.conformance.catalogue import check
from harness.conformance.checks.verb_check import LOOKS, OTHER_MAC
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import (
    added_firewall_entries,
    firewall_entries,
    own_addresses,
    own_interface,
    own_qdiscs,
    own_routes,
    remove_firewall_entries,
    remove_qdisc,
    remove_route,
    result_copy,
    set_mac,
)
from harness.conformance.engine.delegates import recording
from harness.conformance.engine.kernel import Address, links
from harness.conformance.engine.outside_changes import command, lose_interface, prepare_all, succeeds
from harness.conformance.engine.requests import Changes, TrialContainer
from harness.conformance.engine.sequences import clean_up
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.sentences import Level
from harness.conformance.subject import IN_POD, Profile
from harness.snapshot import Difference, Snapshot
from skel.result import Result

_Thing = TypeVar("_Thing")

_INTERFACE: Final = {Profile.INTERFACE}
_LIMITS: Final = {f"{direction}{what}": 8_000_000 for direction in ("ingress", "egress") for what in ("Rate", "Burst")}
"""In bits per second, and in bits."""


@check("check-address-missing", "check-finds-missing", profiles=IN_POD, needs=LOOKS)
def address_missing(trial: Trial) -> None:
    """CHECK fails if an address of the result is gone from the container's interface."""
    if not _demand_each_found(trial, own_addresses, _lose_one, "the address {}"):
        raise NotApplicableError("the plugin gives the container's interface no address")


@check("check-route-missing", "check-finds-missing", profiles=IN_POD, needs=LOOKS)
def route_missing(trial: Trial) -> None:
    """CHECK fails if a route of the result is gone from the container."""
    if not _demand_each_found(trial, own_routes, remove_route, "the route to {0.dst}"):
        raise NotApplicableError("the plugin makes no route that is in its result")


@check("check-interface-down", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def interface_down(trial: Trial) -> None:
    """CHECK fails if the container's interface was set down, and so is unusable."""
    trial.attach()
    netns, ifname = trial.container.netns, trial.container.ifname
    is_up = "UP" in command(trial, netns, "ip", "-oneline", "link", "show", "up", "dev", ifname).stdout
    if not is_up or not _set_down(trial, netns, ifname):
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
    lost = next((name for name in _made_on_node(trial) if lose_interface(trial, trial.node_netns, name)), None)
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
    attach, words = partial(own_qdiscs, config=config), "the queueing discipline {0.name}"
    if not _demand_each_found(trial, attach, remove_qdisc, words, config=config):
        raise NotApplicableError("ADD makes no queueing discipline, or none that can be removed")


def _demand_each_found(
    trial: Trial,
    attach: Callable[[Trial, TrialContainer], Sequence[_Thing]],
    lose: Callable[[Trial, TrialContainer, _Thing], bool],
    words: str,
    **changes: Unpack[Changes],
) -> bool:
    """Demand that CHECK fails for each thing that is lost, each in a container of its own; tell whether there is one.

    `attach` returns the things that a container has from the plugin; `words` is a format that names one of them.
    """
    found = False
    count = len(attach(trial, trial.container))
    clean_up(trial, trial.container)
    for number in range(count):
        container = trial.new_container()
        for thing in attach(trial, container)[number : number + 1]:
            if lose(trial, container, thing):
                found = True
                expect.failed(trial.check(container, **changes), f"{words.format(thing)} is gone from the container")
        clean_up(trial, container)
    return found


def _lose_one(trial: Trial, container: TrialContainer, address: Address) -> bool:
    return succeeds(trial, container.netns, "ip", "address", "del", str(address), "dev", container.ifname)


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


# A violation costs a runtime nothing at once.
@check("check-changes-nothing", "check-probes", level=Level.SHOULD)
def changes_nothing(trial: Trial) -> None:
    """CHECK changes nothing, neither the first one nor those after it.

    With the first one may come an empty file, to be locked.
    """
    trial.attach()
    before = trial.snapshot()
    trial.check()
    _demand_same_but_locks(trial, before, trial.snapshot(), "after the first CHECK")
    with trial.unchanged("after more CHECKs"):
        for _ in range(2):
            trial.check()


@check("check-repairs-nothing", "check-probes", profiles=_INTERFACE)
def repairs_nothing(trial: Trial) -> None:
    """CHECK repairs nothing: whatever was lost is lost after CHECK, too."""
    found = False
    for lose in (_set_own_interface_down, _lose_address, _set_host_interfaces_down):
        container = trial.new_container()
        trial.attach(container)
        if lose(trial, container):
            found = True
            before = trial.snapshot(container)
            for _ in range(2):
                trial.check(container)
            _demand_same_but_locks(trial, before, trial.snapshot(container), "after a loss and CHECK")
        clean_up(trial, container)
    if not found:
        raise NotApplicableError("nothing of the container's interface can be lost")


def _set_own_interface_down(trial: Trial, container: TrialContainer) -> bool:
    return _set_down(trial, container.netns, container.ifname)


def _lose_address(trial: Trial, container: TrialContainer) -> bool:
    return succeeds(trial, container.netns, "ip", "address", "flush", "dev", container.ifname, "scope", "global")


def _set_host_interfaces_down(trial: Trial, container: TrialContainer) -> bool:
    """Set the interfaces of the node that the result lists down: the container's own, and its bridge."""
    result = Result.decode_any(trial.result_document(container))
    names = [each.name for each in result.interfaces if not each.sandbox]
    done = [_set_down(trial, trial.node_netns, name) for name in names]
    return any(done)


@check("check-address-other-prefix", "check-finds-missing", profiles=IN_POD, needs=LOOKS)
def address_other_prefix(trial: Trial) -> None:
    """CHECK fails if an address of the result has another prefix length on the container's interface."""
    container = trial.container
    for address in own_addresses(trial, container):
        if not isinstance(address, ipaddress.IPv4Interface):
            continue  # the kernel takes an IPv6 address once, whatever its prefix length
        wider = f"{address.ip}/{address.network.prefixlen - 1}"
        device = ("dev", container.ifname)
        # In this order the routes stay: the address that they depend on is always there.
        if succeeds(trial, container.netns, "ip", "address", "add", wider, *device) and succeeds(
            trial, container.netns, "ip", "address", "del", str(address), *device
        ):
            expect.failed(trial.check(), f"{container.ifname} has {wider}, and prevResult has {address}")
            return
    raise NotApplicableError("the plugin gives the container's interface no IPv4 address that can be changed")


@check("check-host-interface-down", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def host_interface_down(trial: Trial) -> None:
    """CHECK fails if an interface of the result, which ADD made for this container on the node, was set down."""
    trial.warm_up()
    names = _made_on_node(trial)
    there: Mapping[str, Any] = trial.snapshot().section("node", "links")
    up = [name for name in names if "UP" in there.get(name, {}).get("flags", ())]
    down = next((name for name in up if _set_down(trial, trial.node_netns, name)), None)
    if down is None:
        raise NotApplicableError("the result has no interface of the node that ADD made for this container and is up")
    expect.failed(trial.check(), f"{down}, by which the node reaches the container, is down")


@check("check-interface-other-mtu", "check-finds-untracked-missing", profiles={Profile.CHAINED}, needs=LOOKS)
def interface_other_mtu(trial: Trial) -> None:
    """CHECK of a chained plugin that sets the interface's MTU fails if the MTU is again as it was before ADD."""
    container = trial.container
    trial.prepare(container)
    before = links(container.netns)[container.ifname].mtu if container.ifname in links(container.netns) else 0
    trial.attach()
    mtu = links(container.netns)[container.ifname].mtu if before else 0
    if mtu == before or not succeeds(
        trial, container.netns, "ip", "link", "set", "dev", container.ifname, "mtu", str(before)
    ):
        raise NotApplicableError("ADD does not change the MTU of the container's interface")
    expect.failed(trial.check(), f"ADD has given {container.ifname} the MTU {mtu}, and it is {before}")


def _demand_same_but_locks(trial: Trial, before: Snapshot, after: Snapshot, when: str) -> None:
    changed = (each for each in trial.leftovers(before, after) if not _is_lock(each))
    expect.no_difference(changed, f"a node as it was before, {when}")


def _is_lock(difference: Difference) -> bool:
    """Tell whether something is a new folder, or a new file without content."""
    made = difference.after if difference.thing == "file" and difference.kind == "appeared" else None
    return isinstance(made, dict) and (made.get("kind") == "folder" or made.get("size") == 0)


def _made_on_node(trial: Trial) -> list[str]:
    """Attach, and return the names of the interfaces in the result that ADD has made on the node."""
    before = trial.snapshot().section("node", "links")
    return [each.name for each in trial.attach().interfaces if not each.sandbox and each.name not in before]


def _set_down(trial: Trial, netns: str, ifname: str) -> bool:
    return succeeds(trial, netns, "ip", "link", "set", "dev", ifname, "down")
