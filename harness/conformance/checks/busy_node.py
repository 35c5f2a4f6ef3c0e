"""The node's other work: ADD, DEL and GC leave its policies, rules, routes, addresses and parameters alone.

The node has links to two machines, a default route, a firewall, and forwarding.
"""

import re
from functools import partial
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.outside_changes import require
from harness.conformance.engine.traffic import answered, linked_machine
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.sentences import Level
from harness.snapshot import Difference, Snapshot

_LINKS: Final = (("other0", "192.0.2", "2001:db8:a::"), ("other1", "198.51.100", "2001:db8:b::"))
"""Ranges of the documentation (RFC 5737, RFC 3849)."""
_FIREWALL: Final = """\
table ip filter {
    chain INPUT { type filter hook input priority filter; policy accept; }
    chain FORWARD {
        type filter hook forward priority filter; policy %(policy)s;
        ip saddr 203.0.113.7 accept
        ip saddr 203.0.113.8 drop
    }
    chain OUTPUT { type filter hook output priority filter; policy accept; }
}
table inet conformance {
    set trusted { type ipv4_addr; elements = { 203.0.113.7, 203.0.113.9 }; }
    chain forward {
        type filter hook forward priority filter + 5; policy accept;
        ip saddr @trusted accept
    }
}
"""
"""Tables as iptables makes them, and one of another program."""
_PARAMETERS: Final = ("ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/other1/rp_filter")
"""These are set to 1."""
_PORT: Final = 8080
_EXPECTED: Final = "what the node had for its other work as it was"


def _give_work(trial: Trial, *, policy: str) -> list[str]:
    """Give the node other work, and return the namespaces of the machines that are linked to it.

    `policy`, "accept" or "drop", is for packets that it forwards. Raises NotApplicableError.
    """
    trial.forwards_otherwise = True
    machines = [linked_machine(trial, link, f"{ipv4}.1", f"{ipv4}.2") for link, ipv4, _ in _LINKS]
    for link, _, ipv6 in _LINKS:
        require(trial, trial.node_netns, "ip", "address", "add", f"{ipv6}1/64", "dev", link, "nodad")
    require(trial, trial.node_netns, "ip", "route", "add", "default", "via", f"{_LINKS[0][1]}.2")
    for parameter in _PARAMETERS:
        require(trial, trial.node_netns, "tee", f"/proc/sys/net/{parameter}", stdin="1")
    require(trial, trial.node_netns, "nft", "--file", "-", stdin=_FIREWALL % {"policy": policy})
    return machines


def losses(trial: Trial, before: Snapshot, after: Snapshot) -> list[Difference]:
    """Return the things of the node that disappeared or changed, without those of the interfaces that pods use.

    A plugin may move an interface that the preparation made into a pod, and change one that a plugin before it made.
    """
    own = {"lo", *(name for name, _, _ in _LINKS)}
    of_pods = before.section("node", "links").keys() - own
    return [
        each
        for each in trial.leftovers(before, after)
        if each.place == "node" and each.kind != "appeared" and not of_pods & set(re.split(r"[\s./:]+", each.name))
    ]


# Forwarding is on already, so that a plugin that turns it on changes nothing.
@check("add-keeps-node", "add-interface")
def add_keeps_node(trial: Trial) -> None:
    """ADD leaves the node's own firewall policies and rules, routes, addresses and parameters as they were."""
    before = _at_work(trial)
    trial.attach()
    expect.no_difference(losses(trial, before, trial.snapshot()), f"{_EXPECTED}, after ADD")


@check("add-keeps-forwarding", "add-interface")
def add_keeps_forwarding(trial: Trial) -> None:
    """Packets that the node forwards between other machines still arrive after ADD."""
    first, second = _give_work(trial, policy="accept")
    forwarded = partial(answered, second, _PORT, first, f"{_LINKS[1][1]}.2", _PORT)
    if not forwarded():
        raise NotApplicableError("the node forwards nothing between two machines before ADD, either")
    trial.attach()
    if not forwarded():
        raise ViolationError("packets that the node forwards between two machines to arrive after ADD", "none arrives")


@check("del-keeps-node", "del-undoes")
def del_keeps_node(trial: Trial) -> None:
    """DEL of the last container leaves the node's own policies, rules, routes, addresses and parameters alone."""
    before = _at_work(trial)
    trial.attach()
    changed_by_add = {(each.thing, each.name) for each in losses(trial, before, trial.snapshot())}
    expect.succeeded(trial.delete())
    left = losses(trial, before, trial.snapshot())
    expect.no_difference(
        [each for each in left if (each.thing, each.name) not in changed_by_add], f"{_EXPECTED}, after ADD and DEL"
    )


@check("gc-keeps-node", "gc-only-stale", level=Level.SHOULD)
def gc_keeps_node(trial: Trial) -> None:
    """GC leaves the node's own firewall policies and rules, routes, addresses and parameters as they were."""
    before = _at_work(trial)
    trial.gc()
    expect.no_difference(losses(trial, before, trial.snapshot()), f"{_EXPECTED}, after GC")


def _at_work(trial: Trial) -> Snapshot:
    """Give the node other work, have the plugins before the one under test do theirs, and return the state."""
    _give_work(trial, policy="drop")
    trial.prepare(trial.container)
    return trial.snapshot()
