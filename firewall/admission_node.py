"""The firewall that a node has already: nftables lets no packet pass that another table drops.

The answers are look-ups by netlink. A program is run only if the kernel has tables of the older iptables.
"""

from firewall.iptables_program import run
from firewall.iptables_variant import FAMILIES, Family, program_of, programs_with
from firewall.tables import Tables
from netlink.nft_reading import refuses
from netlink.nft_wire import DROP, INET
from netlink.nftables import Table

_TABLE = "filter"
_FORWARD = "FORWARD"


def has_firewalld(tables: Tables) -> bool:
    """Tell whether firewalld has rules here, by nftables or by iptables. Raises NetlinkError."""
    netfilter = tables.netfilter()
    own = Table(netfilter, INET, "firewalld").uses_question()
    direct = [Table(netfilter, family.protocol, _TABLE).chain_question("FORWARD_direct") for family in FAMILIES]
    netfilter.look_up(own, *direct)
    return own.found is not None or any(each.found is not None for each in direct)


def is_refused(tables: Tables, version: int) -> bool:
    """Tell whether iptables' chain FORWARD refuses packets of an address family, by its policy or a rule of its own.

    Chains that it jumps to are not looked at: they are about other programs' networks. Raises OSError.
    """
    (family,) = (each for each in FAMILIES if each.version == version)
    table = Table(tables.netfilter(), family.protocol, _TABLE)
    chain = table.chain(_FORWARD)
    if chain and (chain.policy == DROP or (chain.uses and any(map(refuses, table.rules(_FORWARD))))):
        return True
    return any(_refuses_legacy(tables, family) for _ in programs_with(tables, family, _TABLE, lambda _: False))


def _refuses_legacy(tables: Tables, family: Family) -> bool:
    program = program_of(tables, family, "legacy")
    _, listing = run(program, ["-w", "-t", _TABLE, "-S", _FORWARD], check=False)
    return any(
        line == f"-P {_FORWARD} DROP" or "-j DROP" in line or "-j REJECT" in line for line in listing.splitlines()
    )
