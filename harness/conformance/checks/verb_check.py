"""CHECK: the losses that it reports, the changes that it accepts, and its use of prevResult."""

import ipaddress
from typing import Any, Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import (
    FirewallEntries,
    added_firewall_entries,
    firewall_entries,
    own_addresses,
    own_interface,
    own_routes,
    remove_firewall_entries,
    remove_route,
    result_copy,
    set_mac,
)
from harness.conformance.engine.outside_changes import lose_namespace, succeeds, take_interface
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.sentences import Level
from harness.conformance.subject import GIVING_ADDRESSES, IN_POD, Profile
from harness.snapshot import differences

LOOKS: Final = ("check-everything-missing", "check-after-del")
"""The checks that tell whether CHECK looks at anything: a CHECK that does not is one finding."""
_OWN_RESULT: Final = "check-other-address-expected"
"""The check of a CHECK that compares with a result of its own: such a one refuses later changes, too."""
_CONSULTS: Final = (*LOOKS, _OWN_RESULT)
_INTERFACE: Final = {Profile.INTERFACE}
OTHER_MAC: Final = "02:00:5e:00:53:01"
_OTHER_ADDRESSES: Final = {4: "192.0.2.77/24", 6: "2001:db8:77::77/64"}
_LATER_ROUTES: Final = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24")
"""Of these, one that the plugin itself does not make."""


@check("check-after-add", "check-after-add")
def after_add(trial: Trial) -> None:
    """CHECK right after ADD succeeds, as often as it is called."""
    trial.attach()
    expect.succeeded(trial.check(), "CHECK right after ADD")
    for _ in range(2):
        expect.succeeded(trial.check(), "CHECK, again")


@check("check-everything-missing", "check-consults-prev-result", "check-finds-missing", profiles=_INTERFACE)
def everything_missing(trial: Trial) -> None:
    """CHECK fails if nothing is left of what ADD made outside of files: no interface, and no entry in the firewall."""
    trial.warm_up()
    before = _entries(trial)
    trial.attach()
    added = added_firewall_entries(before, _entries(trial))
    take_interface(trial)
    if added:
        remove_firewall_entries(trial, added)
    lost = f"{trial.container.ifname} and its addresses" + (" and the entries in the firewall" if added else "")
    expect.failed(trial.check(), f"{lost}, which ADD made, are gone")


def _entries(trial: Trial) -> FirewallEntries:
    """Return the content of the node's firewall; none if it cannot be read."""
    try:
        return firewall_entries(trial)
    except NotApplicableError:
        return {}


@check("check-after-del", "check-finds-missing", "check-finds-untracked-missing", needs=("check-everything-missing",))
def after_del(trial: Trial) -> None:
    """CHECK fails for an attachment that was deleted."""
    _attach_with_traces(trial)
    made = trial.snapshot()
    expect.succeeded(trial.delete())
    # CHECK is right about an attachment that DEL has left as it was.
    follows = "" if differences(made, trial.snapshot()) else "del-undoes-add"
    expect.failed(trial.check(), "the attachment was deleted", follows=follows)


@check(
    "check-never-added",
    "check-finds-missing",
    "check-consults-prev-result",
    profiles=GIVING_ADDRESSES,
    needs=LOOKS,
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


def _attach_with_traces(trial: Trial) -> None:
    """Attach. Raises NotApplicableError if ADD leaves no trace that could be missing, as with fixed addresses."""
    trial.prepare(trial.container)
    before = trial.snapshot()
    trial.attach()
    if not differences(before, trial.snapshot()):
        raise NotApplicableError("ADD makes nothing, on the node or in the container, that could be missing")


@check("check-netns-gone", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def netns_gone(trial: Trial) -> None:
    """CHECK fails if the container's namespace is gone."""
    trial.attach()
    lose_namespace(trial.container)
    expect.failed(trial.check(), f"there is nothing at {trial.container.netns}")


@check("check-interface-missing", "check-finds-missing", profiles=_INTERFACE, needs=LOOKS)
def interface_missing(trial: Trial) -> None:
    """CHECK fails if the interface is gone from the container."""
    trial.attach()
    take_interface(trial)
    expect.failed(trial.check(), f"{trial.container.ifname} is gone from the container")


@check("check-other-address-expected", "check-consults-prev-result", profiles=_INTERFACE, needs=LOOKS)
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


@check("check-other-interface-expected", "check-consults-prev-result", profiles=_INTERFACE, needs=_CONSULTS)
def other_interface_expected(trial: Trial) -> None:
    """CHECK fails if prevResult has another hardware address for the interface than it has."""
    trial.attach()
    result = result_copy(trial)
    own_interface(trial, result)["mac"] = OTHER_MAC
    expect.failed(trial.check(prev_result=result), f"prevResult has the hardware address {OTHER_MAC}")


# No runtime may leave it out, so the specification does not define the outcome.
@check(
    "check-without-prev-result",
    "check-consults-prev-result",
    profiles=_INTERFACE,
    level=Level.CONVENTION,
    needs=_CONSULTS,
)
def without_prev_result(trial: Trial) -> None:
    """CHECK fails without a previous result, which it needs."""
    trial.attach()
    expect.failed(trial.check(prev_result=ABSENT), "there is no prevResult to tell what to expect")


@check("check-later-mac", "check-allows-later-changes", profiles=_INTERFACE)
def later_mac(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has changed the hardware address, as prevResult says."""
    trial.attach()
    result = result_copy(trial)
    own_interface(trial, result)["mac"] = OTHER_MAC
    set_mac(trial, OTHER_MAC)
    what = "CHECK after a later plugin changed the hardware address"
    expect.succeeded(trial.check(prev_result=result), what, follows=_OWN_RESULT)


@check("check-later-address", "check-allows-later-changes", profiles=IN_POD)
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


@check("check-later-route", "check-allows-later-changes", profiles=IN_POD)
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


@check("check-later-route-removed", "check-allows-later-changes", profiles=IN_POD)
def later_route_removed(trial: Trial) -> None:
    """CHECK succeeds if a later plugin has removed a route, from the container and from prevResult."""
    routes = own_routes(trial, trial.container)
    if not [route for route in routes if remove_route(trial, trial.container, route)]:
        raise NotApplicableError("the plugin makes no route that is in its result")
    result = result_copy(trial)
    gone = {str(route.dst) for route in routes}
    result["routes"] = [route for route in result.get("routes") or [] if route["dst"] not in gone]
    what = "CHECK after a later plugin removed the routes"
    expect.succeeded(trial.check(prev_result=result), what, follows=_OWN_RESULT)
