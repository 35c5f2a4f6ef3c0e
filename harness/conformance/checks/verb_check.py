"""CHECK: the losses that it reports, the changes that it accepts, and its use of prevResult."""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from harness.conformance import expect
from harness.conformance.added_objects import (
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
from harness.conformance.catalogue import check
from harness.conformance.delegates import recording
from harness.conformance.finding import NotApplicableError
from harness.conformance.outside_changes import command, lose_interface, lose_namespace, succeeds
from harness.conformance.requests import ABSENT, TrialContainer
from harness.conformance.sentences import Level
from harness.conformance.sequences import clean_up
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD, Profile
from harness.conformance.trial import Trial
from harness.snapshot import differences
from skel.versions import VERB_SINCE

_INTERFACE: Final = {Profile.INTERFACE}
_SINCE: Final = VERB_SINCE["CHECK"]
_OTHER_MAC: Final = "02:00:5e:00:53:01"
_OTHER_ADDRESSES: Final = {4: "192.0.2.77/24", 6: "2001:db8:77::77/64"}
_LATER_ROUTES: Final = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")
"""Of these, one that the plugin itself does not make."""
_LIMITS: Final = {f"{direction}{what}": 8_000_000 for direction in ("ingress", "egress") for what in ("Rate", "Burst")}
"""In bits per second, and in bits."""


@check("check-after-add", "check-after-add", since=_SINCE)
def after_add(trial: Trial) -> None:
    """CHECK right after ADD succeeds, as often as it is called."""
    trial.attach()
    expect.succeeded(trial.check(), "CHECK right after ADD")
    for _ in range(2):
        expect.succeeded(trial.check(), "CHECK, again")


@check("check-address-missing", "check-finds-missing", profiles=IN_POD, since=_SINCE)
def address_missing(trial: Trial) -> None:
    """CHECK fails if an address of the result is gone from the container's interface."""
    found = False
    count = len(own_addresses(trial, trial.container))
    clean_up(trial, trial.container)
    for number in range(count):
        container = trial.new_container()
        for address in own_addresses(trial, container)[number : number + 1]:
            if succeeds(trial, container.netns, "ip", "address", "del", str(address), "dev", container.ifname):
                found = True
                expect.failed(trial.check(container), f"the address {address} is gone from {container.ifname}")
        clean_up(trial, container)
    if not found:
        raise NotApplicableError("the plugin gives the container's interface no address")


@check("check-route-missing", "check-finds-missing", profiles=IN_POD, since=_SINCE)
def route_missing(trial: Trial) -> None:
    """CHECK fails if a route of the result is gone from the container."""
    found = False
    count = len(own_routes(trial, trial.container))
    clean_up(trial, trial.container)
    for number in range(count):
        container = trial.new_container()
        for route in own_routes(trial, container)[number : number + 1]:
            if remove_route(trial, container, route):
                found = True
                expect.failed(trial.check(container), f"the route to {route.dst} is gone from the container")
        clean_up(trial, container)
    if not found:
        raise NotApplicableError("the plugin makes no route that is in its result")


@check("check-interface-missing", "check-finds-missing", profiles=_INTERFACE, since=_SINCE)
def interface_missing(trial: Trial) -> None:
    """CHECK fails if the interface is gone from the container."""
    trial.attach()
    if not lose_interface(trial, trial.container.netns, trial.container.ifname):
        raise NotApplicableError("the interface cannot be removed")
    expect.failed(trial.check(), f"{trial.container.ifname} is gone from the container")


@check("check-interface-down", "check-finds-missing", profiles=_INTERFACE, since=_SINCE)
def interface_down(trial: Trial) -> None:
    """CHECK fails if the container's interface was set down, and so is unusable."""
    trial.attach()
    netns, ifname = trial.container.netns, trial.container.ifname
    is_up = "UP" in command(trial, netns, "ip", "-oneline", "link", "show", "up", "dev", ifname).stdout
    if not is_up or not succeeds(trial, netns, "ip", "link", "set", "dev", ifname, "down"):
        raise NotApplicableError("the interface is not up after ADD, or cannot be set down")
    expect.failed(trial.check(), f"{ifname} is down")


@check("check-interface-other-mac", "check-finds-missing", profiles=_INTERFACE, since=_SINCE)
def interface_other_mac(trial: Trial) -> None:
    """CHECK fails if the container's interface has another hardware address than the result has."""
    trial.attach()
    own_interface(trial, result_copy(trial))
    if not set_mac(trial, _OTHER_MAC):
        raise NotApplicableError("the hardware address of the interface cannot be changed")
    expect.failed(trial.check(), f"{trial.container.ifname} has another hardware address than prevResult says")


@check("check-host-interface-missing", "check-finds-missing", profiles=_INTERFACE, since=_SINCE)
def host_interface_missing(trial: Trial) -> None:
    """CHECK fails if an interface of the result is gone from the node."""
    before = trial.snapshot().section("node", "links")
    names = [each.name for each in trial.attach().interfaces if not each.sandbox and each.name not in before]
    lost = next((name for name in names if lose_interface(trial, trial.node_netns, name)), None)
    if lost is None:
        raise NotApplicableError("the result has no interface of the node that ADD made, or none that can be removed")
    expect.failed(trial.check(), f"{lost}, which the result has, is gone from the node")


@check("check-rule-missing", "check-finds-untracked-missing", since=_SINCE)
def rule_missing(trial: Trial) -> None:
    """CHECK fails if ADD's entries in the firewall are gone."""
    trial.warm_up()
    trial.prepare(trial.container)
    before = firewall_entries(trial)
    trial.attach()
    things = added_firewall_entries(before, firewall_entries(trial))
    if not things:
        raise NotApplicableError("ADD puts nothing into the firewall")
    remove_firewall_entries(trial, things)
    expect.failed(trial.check(), f"what ADD put into the firewall is gone ({len(things)} things)")


@check("check-qdisc-missing", "check-finds-shaping-missing", profiles=IN_POD, since=_SINCE)
def qdisc_missing(trial: Trial) -> None:
    """CHECK fails if a queueing discipline that ADD has made is gone."""
    asked = "bandwidth" in trial.subject.plugin.capabilities
    config = {"runtimeConfig": {"bandwidth": _LIMITS}} if asked else {}
    trial.warm_up()
    found = False
    count = len(_shaped(trial, trial.container, config))
    clean_up(trial, trial.container)
    for number in range(count):
        container = trial.new_container()
        for qdisc in _shaped(trial, container, config)[number : number + 1]:
            if remove_qdisc(trial, qdisc):
                found = True
                expect.failed(trial.check(container, config=config), f"the queueing discipline {qdisc.name} is gone")
        clean_up(trial, container)
    if not found:
        raise NotApplicableError("ADD makes no queueing discipline, or none that can be removed")


def _shaped(trial: Trial, container: TrialContainer, config: Mapping[str, object]) -> list[Qdisc]:
    """Attach a container, and return the queueing disciplines that it has from the plugin under test."""
    trial.prepare(container)
    before = trial.snapshot(container)
    expect.result(trial.add(container, config=config), trial.version)
    return added_qdiscs(trial, container, before, trial.snapshot(container))


@check("check-reservation-missing", "check-finds-untracked-missing", "check-delegates", profiles=IN_POD, since=_SINCE)
def reservation_missing(trial: Trial) -> None:
    """CHECK fails if the delegate has released the addresses."""
    delegate = recording(trial)
    expect.succeeded(trial.add(environ=delegate.environ))
    expect.succeeded(delegate.ask_real(trial, "DEL"), "DEL of the delegate itself")
    if delegate.ask_real(trial, "CHECK").exit_code == 0:
        raise NotApplicableError("the delegate itself has nothing to find missing")
    expect.failed(trial.check(), "the delegate has released its addresses, and says so itself")


@check(
    "check-never-added", "check-finds-missing", "check-consults-prev-result", since=_SINCE, profiles=GIVING_ADDRESSES
)
def never_added(trial: Trial) -> None:
    """CHECK fails for a container that was never added, though its prevResult is another container's result."""
    other = trial.new_container()
    _attach_with_traces(trial)
    result = result_copy(trial)
    for interface in result.get("interfaces") or []:
        if interface.get("sandbox"):
            interface["sandbox"] = other.netns
    expect.failed(trial.check(other, prev_result=result), "the container was never added")


@check(
    "check-after-del", "check-finds-missing", "check-finds-untracked-missing", since=_SINCE, profiles=GIVING_ADDRESSES
)
def after_del(trial: Trial) -> None:
    """CHECK fails for an attachment that was deleted."""
    _attach_with_traces(trial)
    expect.succeeded(trial.delete())
    expect.failed(trial.check(), "the attachment was deleted")


def _attach_with_traces(trial: Trial) -> None:
    """Attach. Raises NotApplicableError if ADD leaves no trace that could be missing, as with fixed addresses."""
    before = trial.snapshot()
    trial.attach()
    if not differences(before, trial.snapshot()):
        raise NotApplicableError("ADD makes nothing, on the node or in the container, that could be missing")


@check("check-netns-gone", "check-finds-missing", profiles=_INTERFACE, since=_SINCE)
def netns_gone(trial: Trial) -> None:
    """CHECK fails if the container's namespace is gone."""
    trial.attach()
    lose_namespace(trial.container)
    expect.failed(trial.check(), f"there is nothing at {trial.container.netns}")


@check("check-other-address-expected", "check-consults-prev-result", profiles=_INTERFACE, since=_SINCE)
def other_address_expected(trial: Trial) -> None:
    """CHECK fails if prevResult has an address that the interface does not have."""
    addresses = own_addresses(trial, trial.container)
    if not addresses:
        raise NotApplicableError("the plugin gives the container's interface no address")
    result = result_copy(trial)
    other = _OTHER_ADDRESSES[addresses[0].version]
    for ip in result["ips"]:
        if ipaddress.ip_interface(ip["address"]).ip == addresses[0].ip:
            ip["address"] = other
            ip.pop("gateway", None)
    expect.failed(trial.check(prev_result=result), f"prevResult has the address {other}, and the interface has not")


@check("check-other-interface-expected", "check-consults-prev-result", profiles=_INTERFACE, since=_SINCE)
def other_interface_expected(trial: Trial) -> None:
    """CHECK fails if prevResult has another hardware address for the interface than it has."""
    trial.attach()
    result = result_copy(trial)
    own_interface(trial, result)["mac"] = _OTHER_MAC
    expect.failed(trial.check(prev_result=result), f"prevResult has the hardware address {_OTHER_MAC}")


# No runtime may leave it out, so the specification does not define the outcome.
@check(
    "check-without-prev-result", "check-consults-prev-result", profiles=_INTERFACE, since=_SINCE, level=Level.CONVENTION
)
def without_prev_result(trial: Trial) -> None:
    """CHECK fails without a previous result, which it needs."""
    trial.attach()
    expect.failed(trial.check(prev_result=ABSENT), "there is no prevResult to tell what to expect")


@check("check-later-mac", "check-allows-later-changes", profiles=_INTERFACE, since=_SINCE)
def later_mac(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has changed the hardware address, as prevResult says."""
    trial.attach()
    result = result_copy(trial)
    own_interface(trial, result)["mac"] = _OTHER_MAC
    if not set_mac(trial, _OTHER_MAC):
        raise NotApplicableError("the hardware address of the interface cannot be changed")
    expect.succeeded(trial.check(prev_result=result), "CHECK after a later plugin changed the hardware address")


@check("check-later-address", "check-allows-later-changes", profiles=IN_POD, since=_SINCE)
def later_address(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has given the interface another address, as prevResult says."""
    trial.attach()
    result, container = result_copy(trial), trial.container
    address = _OTHER_ADDRESSES[4]
    if not succeeds(trial, container.netns, "ip", "address", "add", address, "dev", container.ifname):
        raise NotApplicableError("the interface takes no other address")
    names = [(each.get("name"), each.get("sandbox")) for each in result.get("interfaces") or []]
    ip: dict[str, Any] = {"address": address}
    if (container.ifname, container.netns) in names:
        ip["interface"] = names.index((container.ifname, container.netns))
    if trial.version == "0.4.0":
        ip["version"] = "4"
    result["ips"] = [*(result.get("ips") or []), ip]
    expect.succeeded(trial.check(prev_result=result), "CHECK after a later plugin gave another address")


@check("check-later-route", "check-allows-later-changes", profiles=IN_POD, since=_SINCE)
def later_route(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has made another route in the container, as prevResult says."""
    trial.attach()
    result, container = result_copy(trial), trial.container
    for dst in _LATER_ROUTES:
        if succeeds(trial, container.netns, "ip", "route", "add", dst, "dev", container.ifname):
            break
    else:
        raise NotApplicableError("the container takes no other route")
    result["routes"] = [*(result.get("routes") or []), {"dst": dst}]
    expect.succeeded(trial.check(prev_result=result), "CHECK after a later plugin made another route")


@check("check-later-route-removed", "check-allows-later-changes", profiles=IN_POD, since=_SINCE)
def later_route_removed(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has removed a route, from the container and from prevResult."""
    routes = own_routes(trial, trial.container)
    if not [route for route in routes if remove_route(trial, trial.container, route)]:
        raise NotApplicableError("the plugin makes no route that is in its result")
    result = result_copy(trial)
    gone = {str(route.dst) for route in routes}
    result["routes"] = [route for route in result.get("routes") or [] if route["dst"] not in gone]
    expect.succeeded(trial.check(prev_result=result), "CHECK after a later plugin removed the routes")
