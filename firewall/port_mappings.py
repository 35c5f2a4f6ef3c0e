"""Ports of the host that lead to a pod, by the backend that `backend` names.

A pod may have been added by the reference plugins, or with another `backend`. So all verbs but `apply` go through all
backends.
"""

from fast_stdlib.typing import TYPE_CHECKING, Collection, Final
from firewall import port_mappings_iptables, port_mappings_nft, port_mappings_reference
from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.tables import Tables
from skel.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from firewall.tables import Backend, Leftovers

_BACKENDS: "Final[dict[str, Backend[Forwarding]]]" = {
    "nftables": port_mappings_nft,
    "iptables": port_mappings_iptables,
}
_OTHERS: "Final[dict[str, Callable[[Tables, Owner, Forwarding], None]]]" = {
    "nftables": port_mappings_iptables.refuse_clashes,
    "iptables": port_mappings_nft.refuse_clashes,
}
"""The question for the ports of the other backend, before and after those of one are led to a pod."""
_ALL: "Final[tuple[Leftovers[Forwarding], ...]]" = (*_BACKENDS.values(), port_mappings_reference)


def apply(tables: Tables, owner: Owner, forwarding: Forwarding, backend: str) -> None:
    """Lead the ports to the pod, also for UDP flows that go on. Raises OSError, and CniError for a port that is taken.

    Call `remove` after an error.
    """
    from firewall.stale_connections import forget_misled

    if not forwarding.conditions:
        _OTHERS[backend](tables, owner, forwarding)
    _BACKENDS[backend].apply(tables, owner, forwarding)
    # Of two ADDs at the same moment, at least one finds the other's port after its own change.
    if not forwarding.conditions:
        _OTHERS[backend](tables, owner, forwarding)
    forget_misled(tables, forwarding.mappings)


def repair(tables: Tables, owner: Owner, forwarding: Forwarding, backend: str, *, by_reference: bool) -> None:
    """Put back the missing rules of `apply`, or the reference's rules for the same arguments.

    Rules in order stay as they are, also rules of another backend. Raises OSError, CniError.
    """
    from firewall.stale_connections import forget_misled

    # Our backend for nftables compares everything by itself.
    is_own = backend == "nftables" and not by_reference
    others = [each for each in _ALL if not (is_own and each is port_mappings_nft)]
    if any(each.holds(tables, owner, forwarding) for each in others):
        return
    if by_reference and backend == "nftables":
        port_mappings_reference.repair(tables, owner, forwarding)
        forget_misled(tables, forwarding.mappings)
    else:
        apply(tables, owner, forwarding, backend)


def remove(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Remove the rules of `apply`, from any backend or plugin suite; no rules are fine. Raises OSError, CniError.

    All of the owner's ports go. Those in `forwarding` may be incomplete. UDP flows to the pod end: their next packets
    are for this host, or for the next pod.
    """
    removed: list[ForwardedPort] = []
    with Steps() as steps:
        for remove_from in (port_mappings_nft.remove, port_mappings_iptables.remove, port_mappings_reference.remove):
            removed += steps.take(remove_from, tables, owner, forwarding) or ()
        if removed:
            from firewall.stale_connections import forget_of_pod

            # Last: a packet before would begin the flow to the pod again.
            steps.take(forget_of_pod, tables, dict.fromkeys(removed))


def missing(tables: Tables, owner: Owner, forwarding: Forwarding) -> list[ForwardedPort] | None:
    """Return the ports that do not lead to the pod; None if all is in force, [] if the common rules are damaged.

    Raises OSError.
    """
    return None if _holds(tables, owner, forwarding) else _lost(tables, owner, forwarding)


def _lost(tables: Tables, owner: Owner, forwarding: Forwarding) -> list[ForwardedPort]:
    mappings = forwarding.mappings
    if len(mappings) == 1:
        return list(mappings)
    # By halves: each question costs a look at all of the owner's ports, of which there may be thousands.
    middle = len(mappings) // 2
    halves = [forwarding._replace(mappings=half) for half in (mappings[:middle], mappings[middle:]) if half]
    return [lost for half in halves if not _holds(tables, owner, half) for lost in _lost(tables, owner, half)]


def _holds(tables: Tables, owner: Owner, forwarding: Forwarding) -> bool:
    return any(backend.holds(tables, owner, forwarding) for backend in _ALL)


def held_by_earlier_rules(tables: Tables, owner: Owner, forwarding: Forwarding) -> bool:
    """Tell whether all ports lead to the pod by the rules of an earlier version of ours. Raises OSError."""
    return port_mappings_nft.holds(tables, owner, forwarding, earlier=True)


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the rules of the network's attachments that are not in `valid`. Raises OSError, CniError."""
    with Steps() as steps:
        for backend in _BACKENDS.values():
            steps.take(backend.collect, tables, network, valid)
