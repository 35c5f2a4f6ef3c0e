"""Conditions of a network, in the words of nft(8), which alone can read them: the only part that runs a process.

They stand in the first two chains of the network's own table, so they hold for its own ports alone.
"""

import errno

from firewall.iptables_program import IptablesError, Program, run
from firewall.tables import Tables
from lean.hashing import sha256
from lean.typing import Mapping, Sequence
from netlink.nftables import Table

_CHAINS = ("prerouting", "output")
_VERSIONS = {4: "ipv4", 6: "ipv6"}


def count(conditions: Mapping[int, Sequence[str]]) -> int:
    """Return how many rules lead from each of the chains to the ports: one for each family."""
    del conditions
    return len(_VERSIONS)


def are_met(table: Table, conditions: Mapping[int, Sequence[str]]) -> bool:
    """Tell whether the rules have these conditions. Raises NetlinkError."""
    expected = [_comment(conditions)] * len(_VERSIONS)
    return all([rule.comment for rule in table.rules(chain)] == expected for chain in _CHAINS)


def guard(tables: Tables, table: str, conditions: Mapping[int, Sequence[str]]) -> None:
    """Make the rules that lead from the table's chains to the ports. Raises OSError, with the words of nft(8)."""
    lines = []
    ending = f'fib daddr type local jump forward_ports comment "{_comment(conditions)}"'
    for chain in _CHAINS:
        lines.append(f"flush chain inet {table} {chain}")
        for version, family in _VERSIONS.items():
            condition = " ".join(conditions.get(version, ()))
            lines.append(f"add rule inet {table} {chain} meta nfproto {family} {condition} {ending}")
    try:
        run(Program("nft", tables.environ), ["-f", "-"], "\n".join([*lines, ""]))
    except IptablesError as error:
        raise IptablesError(error.errno or errno.EIO, f"conditions of the network: {error.strerror}") from None


def _comment(conditions: Mapping[int, Sequence[str]]) -> str:
    """Return the rules' comment, which differs for other conditions: a network may have had some before."""
    text = "\n".join(f"{version} {' '.join(conditions.get(version, ()))}" for version in _VERSIONS)
    return f"conditions {sha256(text.encode()).hexdigest()[:16]}"
