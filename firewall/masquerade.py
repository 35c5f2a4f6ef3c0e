"""Masquerading of a pod's addresses, by the backend that `ipMasqBackend` names.

A pod may have been added by the reference plugins, or with another `ipMasqBackend`. So all verbs but `apply` go
through all backends.
"""

from fast_stdlib.typing import TYPE_CHECKING, Collection, Final, Sequence
from firewall import masquerade_iptables, masquerade_nft, masquerade_reference
from firewall.iptables_program import find
from firewall.owner import Owner
from firewall.tables import Interface, Tables
from skel.steps import Steps

if TYPE_CHECKING:
    from firewall.tables import Backend, Leftovers

_DEFAULT: Final = "nftables"
_BACKENDS: "Final[dict[str, Backend[Sequence[Interface]]]]" = {
    _DEFAULT: masquerade_nft,
    "iptables": masquerade_iptables,
}
_ALL: "Final[tuple[Leftovers[Sequence[Interface]], ...]]" = (*_BACKENDS.values(), masquerade_reference)


def apply(tables: Tables, owner: Owner, addresses: Sequence[Interface], backend: str | None = None) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets and multicast. Raises OSError."""
    _BACKENDS[backend or _DEFAULT].apply(tables, owner, addresses)


def repair(
    tables: Tables, owner: Owner, addresses: Sequence[Interface], backend: str | None = None, *, by_reference: bool
) -> None:
    """Put back the missing rules of `apply`, or those that the reference made of the same arguments. Raises OSError.

    Rules in order stay as they are. Without `backend` the reference uses iptables, or nftables if the programs of
    iptables are missing.
    """
    if by_reference and not backend:
        backend = "iptables" if find("iptables", tables.environ) else "nftables"
    if backend == "iptables":
        masquerade_iptables.apply(tables, owner, addresses, repairs=True)
    elif by_reference:
        masquerade_reference.repair(tables, owner, addresses)
    else:
        apply(tables, owner, addresses, backend)


def remove(tables: Tables, owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Remove the rules of `apply`, from any backend or plugin suite; no rules are fine. Raises OSError, CniError.

    All of the owner's addresses go. If `addresses` names them, fewer look-ups are needed.
    """
    with Steps() as steps:
        for backend in _ALL:
            steps.take(backend.remove, tables, owner, addresses)


def holds(
    tables: Tables, owner: Owner, addresses: Sequence[Interface], optional: Collection[Interface] = ()
) -> list[Interface]:
    """Return the addresses that nothing masquerades. Raises OSError.

    A later plugin may have added addresses, which are never masqueraded. The caller names these as `optional`: they
    are left out, as long as any other address is masqueraded.
    """
    missing = [each for each in addresses if not any(backend.holds(tables, owner, [each]) for backend in _ALL)]
    return missing if len(missing) == len(addresses) else [each for each in missing if each not in optional]


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the rules of the network's attachments that are not in `valid`. Raises OSError, CniError."""
    with Steps() as steps:
        for backend in _BACKENDS.values():
            steps.take(backend.collect, tables, network, valid)
