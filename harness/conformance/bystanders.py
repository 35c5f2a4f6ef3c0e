"""A node that has other work than pods: links to two machines, a default route, a firewall, and forwarding."""

import re
from typing import Final, NamedTuple

from harness.conformance.finding import NotApplicableError
from harness.conformance.outside_changes import command
from harness.conformance.trial import Trial
from harness.snapshot import Difference, Snapshot

_LINKS: Final = (("other0", "192.0.2", "2001:db8:a::"), ("other1", "198.51.100", "2001:db8:b::"))
"""Ranges of the documentation (RFC 5737, RFC 3849)."""
_PORT: Final = "node0"
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


class Machine(NamedTuple):
    """A machine that is linked to the node: the path of its namespace, and its address."""

    netns: str
    address: str


def give_work(trial: Trial, *, policy: str) -> tuple[Machine, Machine]:
    """Give the node other work. `policy`, "accept" or "drop", is for packets that it forwards.

    The first machine is the next hop of the node's default route. Raises NotApplicableError.
    """
    machines = []
    on_node = []
    for name, ipv4, ipv6 in _LINKS:
        machine = Machine(trial.new_container().netns, f"{ipv4}.2")
        on_node += [
            f"link add name {name} type veth peer name {_PORT} netns {machine.netns}",
            f"address add {ipv4}.1/30 dev {name}",
            f"address add {ipv6}1/64 dev {name} nodad",
            f"link set dev {name} up",
        ]
        machines.append(machine)
    _demand(trial, trial.node_netns, "ip", "-batch", "-", stdin="\n".join(on_node))
    for machine, (_, ipv4, _) in zip(machines, _LINKS, strict=True):
        there = (
            f"address add {ipv4}.2/30 dev {_PORT}",
            f"link set dev {_PORT} up",
            f"route add default via {ipv4}.1",
        )
        _demand(trial, machine.netns, "ip", "-batch", "-", stdin="\n".join(there))
    _demand(trial, trial.node_netns, "ip", "route", "add", "default", "via", machines[0].address)
    for parameter in _PARAMETERS:
        _demand(trial, trial.node_netns, "tee", f"/proc/sys/net/{parameter}", stdin="1")
    _demand(trial, trial.node_netns, "nft", "--file", "-", stdin=_FIREWALL % {"policy": policy})
    first, second = machines
    return first, second


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


def _demand(trial: Trial, netns: str, *words: str, stdin: str = "") -> None:
    done = command(trial, netns, *words, stdin=stdin)
    if done.returncode != 0:
        raise NotApplicableError(f"the node can be given no other work: {words[0]}: {done.stderr.strip()}")
