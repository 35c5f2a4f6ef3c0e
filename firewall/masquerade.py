"""Masquerading of a pod's addresses, by the backend that `ipMasqBackend` names.

A pod may have been added by the reference plugins, or with another `ipMasqBackend`. So all verbs but `apply` go
through all backends.
"""

from fast_stdlib.typing import TYPE_CHECKING, Collection, Final, Sequence
from firewall import masquerade_iptables, masquerade_nft, masquerade_reference
from firewall.iptables_program import find
from firewall.owner import Owner
from firewall.tables import Interface, Network, Tables
from skel.steps import Steps

if TYPE_CHECKING:
    from typing import Protocol

    from firewall.tables import Backend, Leftovers

    class MasqueradeBackend(Backend[Sequence[Interface]], Protocol):
        """A backend that leaves the source address of packets to `exceptions` as it is."""

        def apply(
            self, tables: Tables, owner: Owner, subject: Sequence[Interface], exceptions: Sequence[Network] = (), /
        ) -> None:
            """Make the rules. Existing rules stay; another owner's leftover elements are replaced."""

        def holds(
            self, tables: Tables, owner: Owner, subject: Sequence[Interface], exceptions: Sequence[Network] = (), /
        ) -> bool:
            """Tell whether the owner's rules are complete and in force, with these exceptions."""


_DEFAULT: Final = "nftables"
_BACKENDS: "Final[dict[str, MasqueradeBackend]]" = {
    _DEFAULT: masquerade_nft,
    "iptables": masquerade_iptables,
}
_ALL: "Final[tuple[Leftovers[Sequence[Interface]], ...]]" = (*_BACKENDS.values(), masquerade_reference)


def apply(
    tables: Tables,
    owner: Owner,
    addresses: Sequence[Interface],
    backend: str | None = None,
    exceptions: Sequence[Network] = (),
) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets, multicast and `exceptions`. Raises OSError."""
    _BACKENDS[backend or _DEFAULT].apply(tables, owner, addresses, exceptions)


def repair(
    tables: Tables,
    owner: Owner,
    addresses: Sequence[Interface],
    backend: str | None = None,
    exceptions: Sequence[Network] = (),
    *,
    by_reference: bool,
) -> None:
    """Put back the missing rules of `apply`, or those that the reference made of the same arguments. Raises OSError.

    The reference knows no exceptions. Rules in order stay as they are. Without `backend` the reference uses iptables,
    or nftables if the programs of iptables are missing.
    """
    if by_reference and not backend:
        backend = "iptables" if find("iptables", tables.environ) else "nftables"
    if backend == "iptables":
        masquerade_iptables.apply(tables, owner, addresses, () if by_reference else exceptions, repairs=True)
    elif by_reference:
        masquerade_reference.repair(tables, owner, addresses)
    else:
        apply(tables, owner, addresses, backend, exceptions)


def remove(tables: Tables, owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Remove the rules of `apply`, from any backend or plugin suite; no rules are fine. Raises OSError, CniError.

    All of the owner's addresses go. If `addresses` names them, fewer look-ups are needed.
    """
    with Steps() as steps:
        for backend in _ALL:
            steps.take(backend.remove, tables, owner, addresses)


def holds(
    tables: Tables,
    owner: Owner,
    addresses: Sequence[Interface],
    optional: Collection[Interface] = (),
    exceptions: Sequence[Network] = (),
) -> list[Interface]:
    """Return the addresses that nothing masquerades, or with other exceptions than these. Raises OSError.

    A later plugin may have added addresses, which are never masqueraded. The caller names these as `optional`: they
    are left out, as long as any other address is masqueraded.
    """

    def is_held(address: Interface) -> bool:
        by_own = any(backend.holds(tables, owner, [address], exceptions) for backend in _BACKENDS.values())
        return by_own or masquerade_reference.holds(tables, owner, [address])

    missing = [each for each in addresses if not is_held(each)]
    return missing if len(missing) == len(addresses) else [each for each in missing if each not in optional]


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the rules of the network's attachments that are not in `valid`. Raises OSError, CniError."""
    with Steps() as steps:
        for backend in _BACKENDS.values():
            steps.take(backend.collect, tables, network, valid)
