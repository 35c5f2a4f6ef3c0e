"""The two variants of the iptables programs: rules in nftables (current), or in tables of their own (legacy).

A node's administrator chooses what `iptables` means. Chains may be in the other variant since an earlier time. So the
variant that has a chain is looked up: in nftables by netlink, and by a program only if the kernel has a table of the
older iptables.
"""

import os

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Iterator, NamedTuple
from firewall.iptables_program import Program, find, run
from firewall.tables import Tables
from netlink.nft_wire import IPV4, IPV6
from netlink.nftables import NftTable


class Family(NamedTuple):
    """One family of addresses, as iptables has it."""

    version: int
    protocol: int
    """Of its tables in nftables (NFPROTO_*)."""
    program: str
    """It makes new chains, in the variant that is the node's choice."""
    legacy_tables: str
    """The file that names the tables of the older iptables; it is missing if the kernel has none."""


FAMILIES = (
    Family(4, IPV4, "iptables", "/proc/thread-self/net/ip_tables_names"),
    Family(6, IPV6, "ip6tables", "/proc/thread-self/net/ip6_tables_names"),
)


def program_with(tables: Tables, family: Family, table: str, chain: str) -> Program | None:
    """Return the program that can change `chain` of `table` (nat, filter), or None if the chain does not exist.

    Raises IptablesError, NetlinkError.
    """
    if NftTable(tables.netfilter(), family.protocol, table).chain_uses(chain) is not None:
        return program_of(tables, family, "nft")
    if has_legacy(family, table):
        program = program_of(tables, family, "legacy")
        if run(program, ["-w", "-t", table, "-S", chain], check=False)[0] == 0:
            return program
    return None


def programs_with(tables: Tables, family: Family, table: str, is_wanted: Callable[[str], object]) -> Iterator[Program]:
    """Yield the programs that may have chains of `table` whose names `is_wanted` accepts. Raises NetlinkError.

    The chains of the older iptables are not looked at: its program is yielded if the kernel has its table.
    """
    if any(map(is_wanted, NftTable(tables.netfilter(), family.protocol, table).chains())):
        yield program_of(tables, family, "nft")
    if has_legacy(family, table):
        yield program_of(tables, family, "legacy")


def program_of(tables: Tables, family: Family, variant: str) -> Program:
    """Return the program of a variant, `nft` or `legacy`; the family's only program if it has no variants."""
    name = f"{family.program}-{variant}"
    return Program(name if find(name, tables.environ) else family.program, tables.environ)


def has_legacy(family: Family, table: str) -> bool:
    """Tell whether the kernel has `table` of the older iptables. Asking loads no module."""
    if os.path.exists(family.legacy_tables):  # without the older iptables, an exception takes twice the time
        with suppress(FileNotFoundError), open(family.legacy_tables, encoding="utf-8") as names:
            return table in names.read().split()
    return False
