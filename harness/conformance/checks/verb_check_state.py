"""CHECK: that it only looks, and that it finds an object that is there, but in another state than ADD left it."""

import ipaddress

from harness.conformance.catalogue import check
from harness.conformance.checks.verb_check import LOOKS
from harness.conformance.engine import expect
from harness.conformance.engine.added_objects import own_addresses
from harness.conformance.engine.kernel import links
from harness.conformance.engine.outside_changes import succeeds
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.sequences import clean_up
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.conformance.sentences import Level
from harness.conformance.subject import IN_POD, Profile
from harness.snapshot import Difference, Snapshot
from skel.result import Result


# A violation costs a runtime nothing at once.
@check("check-changes-nothing", "check-probes", level=Level.SHOULD)
def changes_nothing(trial: Trial) -> None:
    """CHECK changes nothing, neither the first one nor those after it.

    With the first one may come an empty file, to be locked.
    """
    trial.attach()
    before = trial.snapshot()
    trial.check()
    after = trial.snapshot()
    _demand_same_but_locks(trial, before, after, "after the first CHECK")
    for _ in range(2):
        trial.check()
    trial.demand_same(after, trial.snapshot(), "after more CHECKs")


@check("check-repairs-nothing", "check-probes", profiles={Profile.INTERFACE})
def repairs_nothing(trial: Trial) -> None:
    """CHECK repairs nothing: whatever was lost is lost after CHECK, too."""
    found = False
    for lose in (_set_down, _lose_address, _set_host_interfaces_down):
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


def _set_down(trial: Trial, container: TrialContainer) -> bool:
    return succeeds(trial, container.netns, "ip", "link", "set", "dev", container.ifname, "down")


def _lose_address(trial: Trial, container: TrialContainer) -> bool:
    return succeeds(trial, container.netns, "ip", "address", "flush", "dev", container.ifname, "scope", "global")


def _set_host_interfaces_down(trial: Trial, container: TrialContainer) -> bool:
    """Set the interfaces of the node that the result lists down: the container's own, and its bridge."""
    result = Result.decode_any(trial.result_document(container))
    names = [each.name for each in result.interfaces if not each.sandbox]
    done = [succeeds(trial, trial.node_netns, "ip", "link", "set", "dev", name, "down") for name in names]
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


@check("check-host-interface-down", "check-finds-missing", profiles={Profile.INTERFACE}, needs=LOOKS)
def host_interface_down(trial: Trial) -> None:
    """CHECK fails if an interface of the result, which ADD made for this container on the node, was set down."""
    trial.warm_up()
    before = trial.snapshot().section("node", "links")
    names = [each.name for each in trial.attach().interfaces if not each.sandbox and each.name not in before]
    up = set(_up(trial))
    down = next(
        (name for name in names if name in up and succeeds(trial, trial.node_netns, "ip", "link", "set", name, "down")),
        None,
    )
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


def _up(trial: Trial) -> list[str]:
    """Return the names of the interfaces of the node that are up."""
    found = trial.snapshot().section("node", "links")
    return [name for name, link in found.items() if isinstance(link, dict) and "UP" in link.get("flags", ())]
