"""The parts that all backends share: their verbs, their arguments, types of addresses, and keys of owners.

A module implements the verbs as functions; mypy compares them with the protocols `Backend` and `Leftovers`.

A kernel may lack nftables for frames between the ports of bridges. It answers EOPNOTSUPP or EAFNOSUPPORT if the family
was left out, and ENOENT if a module is missing. ENOENT is also the answer if another process has removed an object.
"""

import errno

from fast_stdlib.hashing import sha256
from fast_stdlib.ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_network,
)
from fast_stdlib.typing import TYPE_CHECKING, Callable, Final, Iterator, Mapping, NamedTuple
from netlink.netfilter import Netfilter
from netlink.nft_transaction import IFNAME_KEY, Hook
from netlink.nft_wire import BRIDGE
from netlink.nftables import ATTEMPTS, NftTable
from netlink.wire import NetlinkError

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

COMMENT_MAX: Final = 125
"""Bytes. nft(8) refuses comments of more than 128, and so could not load its own output."""
OWNERS: Final = "owners"
OWNER_KEY: Final = IFNAME_KEY  # a text of at most 15 characters

_TRIAL_TABLE: Final = "cni_harness_trial"
_NO_BRIDGE_FAMILY: Final = {errno.ENOENT, errno.EOPNOTSUPP, errno.EAFNOSUPPORT}


class Tables(NamedTuple):
    """Access to the firewall of the network namespace that the calling thread is in."""

    netfilter: Callable[[], Netfilter]
    """Returns the socket for nftables, which is opened at the first call. Raises OSError."""
    environ: Mapping[str, str]
    """The environment of the iptables programs, and the PATH to find them on."""


def attempts(doing: str) -> Iterator[None]:
    """Yield for each attempt to look and to commit. Raises NetlinkError (EAGAIN) if other processes are always faster.

    `doing` names the attempted change in the error.
    """
    for _ in range(ATTEMPTS):
        yield
    raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")


def host_network(address: Address | Interface) -> Network:
    """Return the network that has this address and no other: "10.88.0.5/32", as firewall programs write it."""
    return ip_network(address.ip if isinstance(address, IPv4Interface | IPv6Interface) else address)


def with_port(address: Address, port: int) -> str:
    """Return both as URLs and iptables have them: "10.88.0.5:80", "[2001:db8::5]:80"."""
    return f"[{address}]:{port}" if isinstance(address, IPv6Address) else f"{address}:{port}"


def owner_key(label: str, part: int = 0) -> bytes:
    """Return the key of an owner's element, or of one of several; a hash, as a label may be longer than a key."""
    text = f"{label} {part}" if part else label
    return sha256(text.encode()).hexdigest()[: OWNER_KEY.length - 1].encode().ljust(OWNER_KEY.length, b"\0")


def demand_bridge_family(tables: Tables, hook: Hook, doing: str) -> None:
    """Raise NetlinkError (EOPNOTSUPP) that names the option of the kernel if it cannot make a chain for bridges.

    The chain is made and removed in one transaction, so it filters nothing. Call it after an error, which `doing` was
    about: others are told of this transaction.
    """
    table = NftTable(tables.netfilter(), BRIDGE, _TRIAL_TABLE)
    transaction = table.transaction()
    transaction.add_table()
    transaction.add_chain("trial", hook)
    transaction.delete_table(contents=True)
    try:
        table.commit(transaction, doing=doing)
    except NetlinkError as error:
        if error.errno in _NO_BRIDGE_FAMILY:
            lack = "this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE)"
            raise NetlinkError(errno.EOPNOTSUPP, f"{doing}: {lack}") from error
        raise


if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol, TypeVar

    from firewall.owner import Owner

    Subject_contra = TypeVar("Subject_contra", contravariant=True)
    """The objects that a backend treats: the addresses to masquerade, or the bridge port to check."""

    class Leftovers(Protocol[Subject_contra]):
        """Rules of another plugin suite: they are recognized and removed, and never made.

        Each verb costs one look-up if there are none. All raise OSError, of which NetlinkError and IptablesError are
        kinds.
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
