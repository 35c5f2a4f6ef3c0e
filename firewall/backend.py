"""The verbs of a firewall backend. A module implements them as functions; mypy compares them with these protocols."""

from typing import Protocol, TypeVar

from firewall.owner import Owner
from firewall.tables import Tables
from lean.typing import Collection

Subject_contra = TypeVar("Subject_contra", contravariant=True)
"""The objects that a backend treats: the addresses to masquerade, or the bridge port to check."""


class Leftovers(Protocol[Subject_contra]):
    """Rules of another plugin suite: they are recognized and removed, and never made.

    Each verb costs one look-up if there are none. All raise OSError, of which NetlinkError and IptablesError are kinds.
    """

    def remove(self, tables: Tables, owner: Owner, subject: Subject_contra, /) -> object:
        """Remove the owner's rules; it is no error if there are none. A backend may return the removed objects."""

    def holds(self, tables: Tables, owner: Owner, subject: Subject_contra, /) -> bool:
        """Tell whether the owner's rules are complete and in force."""


class Backend(Leftovers[Subject_contra], Protocol[Subject_contra]):
    """A backend that can be configured."""

    def apply(self, tables: Tables, owner: Owner, subject: Subject_contra, /) -> None:
        """Make the rules. Existing rules stay; another owner's leftover elements are replaced."""

    def collect(self, tables: Tables, network: str, valid: Collection[Owner], /) -> None:
        """Remove the rules of the network's attachments that are not in `valid`; go on past errors.

        Also raises CniError for several errors together.
        """
