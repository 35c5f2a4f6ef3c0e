"""Source address checks: a pod sends from its own MAC address alone."""

from fast_stdlib.typing import TYPE_CHECKING, Collection, Final
from firewall import spoofcheck_nft, spoofcheck_reference
from firewall.owner import Owner
from firewall.spoofcheck_nft import Port
from firewall.tables import Tables
from skel.steps import Steps

if TYPE_CHECKING:
    from firewall.tables import Backend, Leftovers

_BACKEND: "Final[Backend[Port]]" = spoofcheck_nft
_ALL: "Final[tuple[Leftovers[Port], ...]]" = (_BACKEND, spoofcheck_reference)


def apply(tables: Tables, owner: Owner, port: str, mac: str) -> None:
    """Drop frames that enter through bridge port `port` from another MAC address than `mac`. Raises NetlinkError."""
    _BACKEND.apply(tables, owner, Port(port, mac))


def repair(tables: Tables, owner: Owner, port: str, mac: str, *, by_reference: bool) -> None:
    """Put back the missing rules of `apply`, or those that the reference made. Raises NetlinkError."""
    (spoofcheck_reference.repair if by_reference else _BACKEND.apply)(tables, owner, Port(port, mac))


def remove(tables: Tables, owner: Owner, port: str) -> None:
    """Remove the rules of `apply`, from any plugin suite; no rules are fine. Raises OSError, CniError."""
    with Steps() as steps:
        for backend in _ALL:
            steps.take(backend.remove, tables, owner, Port(port))


def holds(tables: Tables, owner: Owner, port: str, mac: str) -> bool:
    """Tell whether frames from other MAC addresses are dropped. Raises OSError."""
    return any(backend.holds(tables, owner, Port(port, mac)) for backend in _ALL)


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the checks of the network's attachments that are not in `valid`. Raises OSError, CniError."""
    _BACKEND.collect(tables, network, valid)
