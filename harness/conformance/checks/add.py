"""ADD: the objects that it makes, its refusals, and that a refusal leaves nothing behind."""

import json
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.failing_adds import fail_at_route, with_unequal_ranges
from harness.conformance.engine.kernel import links, on_link, routes
from harness.conformance.engine.node_state import changes
from harness.conformance.engine.outside_changes import has_interface, lose_namespace, make_interface, prepare_all
from harness.conformance.engine.sequences import attach_unusual
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import IN_POD, Profile

LONGEST_NAME: Final = "uplink_of-pod.7"
"""15 bytes, and no name that a plugin would choose."""
_SHARING: Final = {"ipvlan", "ipvtap"}
"""Kinds of interfaces that have the hardware address of their parent."""
_OF_DEL: Final = "del-undoes-add"
_INTERFACE: Final = {Profile.INTERFACE}


@check("add-makes-interface", "add-interface", profiles=_INTERFACE)
def makes_interface(trial: Trial) -> None:
    """ADD makes the interface that CNI_IFNAME names in the container, whatever its name is."""
    container = trial.new_container(ifname=LONGEST_NAME)
    attach_unusual(trial, container)
    if not has_interface(trial, container.netns, LONGEST_NAME):
        raise ViolationError(f'an interface "{LONGEST_NAME}" in the container after ADD', "none of that name")


@check("add-leaves-other-containers", "add-interface", attachments=2)
def leaves_other_containers(trial: Trial) -> None:
    """ADD changes nothing in the namespaces of other containers."""
    trial.attach()
    before = trial.snapshot()
    trial.attach(trial.new_container())
    after = trial.snapshot()
    changed = (each for each in trial.leftovers(before, after) if each.place == "pod")
    expect.no_difference(changed, "another container as it was before ADD")


@check("add-leaves-etc", "add-interface")
def leaves_etc(trial: Trial) -> None:
    """ADD leaves the node's /etc as it was: its files are the administrator's, and no container's."""
    trial.prepare(trial.container)
    before = trial.snapshot()
    trial.attach()
    found = changes(before, trial.snapshot())
    changed = (each for each in found if each.thing == "file" and each.name.startswith("/etc/"))
    expect.no_difference(changed, "the node's /etc as it was before ADD")


@check("add-existing-interface", "add-existing-interface", profiles=_INTERFACE)
def existing_interface(trial: Trial) -> None:
    """ADD is refused if the container has an interface of that name."""
    make_interface(trial, trial.container)
    expect.failed(trial.add(), f'the container has an interface "{trial.container.ifname}" already')


@check("add-keeps-existing-interface", "habit-failed-add-undone", profiles=_INTERFACE)
def keeps_existing_interface(trial: Trial) -> None:
    """ADD that is refused for an interface that exists leaves that interface, and everything else, as it was."""
    trial.warm_up()
    make_interface(trial, trial.container)
    with trial.unchanged("after ADD was refused since the interface exists"):
        if trial.add().exit_code == 0:
            raise NotApplicableError("ADD is not refused, which another check is about")


@check("add-twice", "add-existing-interface", profiles=_INTERFACE)
def twice(trial: Trial) -> None:
    """ADD of an attachment that exists already is refused, and the attachment stays intact."""
    trial.attach()
    before = trial.snapshot()
    why = "the attachment was added already, and its interface exists"
    expect.failed(trial.add(), why, follows="add-existing-interface")
    # Leftovers of a failed ADD are a finding of the checks for these.
    lost = (each for each in trial.leftovers(before, trial.snapshot()) if each.kind != "appeared")
    expect.no_difference(lost, "the attachment as it was before, after a second ADD was refused")


@check("add-second-interface", "add-second-interface", profiles=_INTERFACE, attachments=2)
def second_interface(trial: Trial) -> None:
    """ADD gives a container a second interface of the same network, under another name."""
    first, second = trial.container, trial.second_interface()
    trial.attach(first)
    trial.attach(second)
    for container in (first, second):
        if not has_interface(trial, container.netns, container.ifname):
            raise ViolationError(f'an interface "{container.ifname}" after two ADDs', "none of that name")


@check("add-own-mac", "interface-connectivity", profiles=_INTERFACE, attachments=2)
def own_mac(trial: Trial) -> None:
    """Containers that reach each other on one link have different hardware addresses."""
    first, second = trial.container, trial.new_container()
    for container in (first, second):
        expect.succeeded(trial.add(container))
    one, other = (links(each.netns).get(each.ifname) for each in (first, second))
    if one is None or other is None:
        raise NotApplicableError("the interface is not in the container")
    if one.kind in _SHARING or not one.uses_arp or not one.mac:
        raise NotApplicableError(f"its interfaces share a hardware address, or need none ({one.kind or 'a device'})")
    near = [each.ip for each in other.addresses if not each.ip.is_link_local]
    if not any(on_link(routes(first.netns), address) for address in near):
        raise NotApplicableError("the containers do not reach each other on one link")
    if one.mac.lower() == other.mac.lower():
        if one.mac.lower() in json.dumps(trial.subject.plugin.raw).lower():
            raise NotApplicableError("the configuration names the hardware address")
        raise ViolationError("a hardware address of its own for each container", f"{one.mac} for both")


@check("add-netns-gone", "exit-code", profiles=_INTERFACE)
def netns_gone(trial: Trial) -> None:
    """ADD fails if CNI_NETNS is a path that does not exist."""
    lose_namespace(trial.container)
    expect.failed(trial.add(), f"there is nothing at {trial.container.netns}")


@check("add-netns-no-namespace", "exit-code", profiles=_INTERFACE, needs=("add-netns-gone",))
def netns_no_namespace(trial: Trial) -> None:
    """ADD fails if CNI_NETNS is the path of a file that is no namespace."""
    execution = trial.add(environ={"CNI_NETNS": "/dev/null"})
    expect.failed(execution, "/dev/null is no namespace")


@check(
    "add-without-namespace-leaves-nothing", "habit-failed-add-undone", profiles=_INTERFACE, needs=("add-netns-gone",)
)
def without_namespace_leaves_nothing(trial: Trial) -> None:
    """ADD that fails because the namespace is missing leaves the node as it was."""
    trial.warm_up()
    unused = trial.new_container()
    with trial.unchanged("after ADD failed for want of a namespace", unused):
        lose_namespace(trial.container)
        expect.failed(trial.add(), f"there is nothing at {trial.container.netns}")


@check("add-bad-prev-result-leaves-nothing", "habit-failed-add-undone", since="0.3.0")
def bad_prev_result_leaves_nothing(trial: Trial) -> None:
    """ADD that is refused for an invalid previous result leaves the node as it was."""
    prepare_all(trial)
    with trial.unchanged("after ADD was refused for its prevResult"):
        refused = trial.add(prev_result={"cniVersion": trial.version, "ips": [{"address": "no address"}]})
        if refused.exit_code == 0:
            raise NotApplicableError("the plugin does not read prevResult at ADD")


@check("add-late-failure-leaves-nothing", "habit-failed-add-undone", profiles=IN_POD, since="0.3.0")
def late_failure_leaves_nothing(trial: Trial) -> None:
    """ADD that fails at a route, after all its other work, leaves the node and the container as they were."""
    prepare_all(trial)
    with trial.unchanged("after ADD failed at a route that the kernel refuses"):
        fail_at_route(trial)


@check("add-half-exhausted-leaves-nothing", "habit-failed-add-undone", profiles={Profile.IPAM}, since="0.3.0")
def half_exhausted_leaves_nothing(trial: Trial) -> None:
    """ADD that gets an address of one range but none of the other gives the first one back."""
    config = {"ipam": with_unequal_ranges(trial.subject.plugin.raw.get("ipam"))}
    other = trial.new_container()
    if trial.add(other, config=config).exit_code != 0:
        raise NotApplicableError("a configuration with two ranges is not accepted")
    with trial.unchanged("after ADD failed for want of a second address"):
        if trial.add(config=config).exit_code == 0:
            raise NotApplicableError(f"{json.dumps(config)} does not run out of addresses")


@check("add-after-del", "del-undoes")
def after_del(trial: Trial) -> None:
    """ADD of an attachment that was deleted succeeds again."""
    trial.come_and_go()
    added = trial.add()
    if added.exit_code != 0 and has_interface(trial, trial.container.netns, trial.container.ifname):
        # DEL has left the interface, so ADD must fail.
        raise ViolationError("ADD after DEL succeeds, with exit code 0", expect.ending(added), added, follows=_OF_DEL)
    expect.result(added, trial.version)
