"""Ports of the host that lead to pods by iptables, with the rules of the reference plugins.

Either suite can take over the other's rules. Each container has one chain, named by a hash, with the rules for its
ports; a common chain leads to it. Packets to masquerade get a mark. Each verb reads the nat table once, and changes it
by one `iptables-restore --noflush`, for each family.

Everything happens in the network namespace of the calling thread, which is also the socket's.
"""

from fast_stdlib.typing import Collection, Iterator
from firewall.iptables_program import IptablesError, Program, chain_name, find, restore, run
from firewall.iptables_variant import FAMILIES, Family, has_legacy, program_of, program_with, programs_with
from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.port_mappings_iptables_rules import (
    DNAT,
    MASQUERADE,
    OWN_CHAIN,
    OWN_PREFIX,
    SET_MARK,
    Rules,
    common_rules,
    entry_rules,
    holder_of,
    is_entry,
    is_for,
    is_unconditional,
    mapped_by,
    own_rules,
)
from firewall.tables import Tables
from netlink.nftables import NftTable
from skel import CniError, Code
from skel.steps import Steps

_TABLE = "nat"
_ATTEMPTS = 5


def apply(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Lead the ports to the pod; all rules of a family are made at once, or none.

    The container's rules are replaced, rules that all containers share are completed. Raises IptablesError,
    NetlinkError, and CniError if another container has one of the ports.
    """
    chain = _chain(owner)
    for family in FAMILIES:
        part = _of_family(forwarding, family)
        if not part.pod:
            continue
        program = (
            program_with(tables, family, _TABLE, chain)
            or program_with(tables, family, _TABLE, DNAT)
            or Program(family.program, tables.environ)
        )
        present = _listed(program)
        _refuse_taken(present, owner, part)
        wanted = own_rules(chain, part)
        changes = [f":{chain} - [0:0]", *(f"-D {rule}" for rule in _entries(present, chain))]
        for name, rules in common_rules(part).items():
            if name in {SET_MARK, MASQUERADE, DNAT} and (
                name not in present or (name != DNAT and present[name] != rules)
            ):
                changes.append(f":{name} - [0:0]")
                present[name] = []
            # The masquerade rules of other plugins must not be met before the one for marked packets.
            add = "-I" if name == "POSTROUTING" else "-A"
            changes += [f"{add} {name} {rule}" for rule in rules if rule not in present.get(name, ())]
        changes += [f"-A {rule}" for rule in (*wanted, *entry_rules(chain, owner, part))]
        restore(program, _TABLE, changes)


def refuse_clashes(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Raise CniError (999) if another container of a network without conditions has one of the ports.

    A program is run only if a rule of the common chain is for one of these numbers, or if the kernel has the table of
    the older iptables. O(n). Raises IptablesError, NetlinkError.
    """
    for family in FAMILIES:
        part = _of_family(forwarding, family)
        for program in _programs_of_ports(tables, family, {mapping.host_port for mapping in part.mappings}):
            present = _listed(program)
            plain = {rule.split()[-1] for rule in present.get(DNAT, []) if is_unconditional(rule)}
            _refuse_taken({chain: rules for chain, rules in present.items() if chain in {DNAT, *plain}}, owner, part)


def _programs_of_ports(tables: Tables, family: Family, ports: Collection[int]) -> Iterator[Program]:
    """Yield the programs that may have rules for these ports of the host."""
    if not ports:
        return
    table = NftTable(tables.netfilter(), family.protocol, _TABLE)
    if table.chain_uses(DNAT) is not None and any(is_for(rule, ports) for rule in table.rules(DNAT)):
        yield program_of(tables, family, "nft")
    if has_legacy(family, _TABLE):
        program = program_of(tables, family, "legacy")
        if find(f"{program.name}-save", tables.environ):
            yield program


def remove(tables: Tables, owner: Owner, _: Forwarding | None = None) -> list[ForwardedPort]:
    """Remove the container's chain and the rules that lead to it; no chain is fine. Return the removed mappings.

    No program is run if the container has no chain. Raises IptablesError, NetlinkError.
    """
    chain = _chain(owner)
    removed: list[ForwardedPort] = []
    with Steps() as steps:
        for family in FAMILIES:
            if program := steps.take(program_with, tables, family, _TABLE, chain):
                removed += steps.take(_remove, tables, family, program, chain) or ()
    return removed


def holds(tables: Tables, owner: Owner, forwarding: Forwarding) -> bool:
    """Tell whether all rules are there; no program is run if the container has no chain. Raises OSError."""
    chain = _chain(owner)
    parts = [(family, part) for family in FAMILIES if (part := _of_family(forwarding, family)).pod]
    for family, part in parts:
        program = program_with(tables, family, _TABLE, chain)
        if program is None:
            return False
        present = _listed(program)
        if not set(own_rules("", part)) <= {f" {rule}" for rule in present.get(chain, [])}:
            return False
        if any(rule not in present.get(name, ()) for name, rules in common_rules(part).items() for rule in rules):
            return False
        entries = present.get(DNAT, [])
        if not all(any(is_entry(rule, chain, mapping) for rule in entries) for mapping in part.mappings):
            return False
    return bool(parts)


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the chains of the network's containers that have no attachment in `valid`.

    The rules' comments name the network. No program is run if iptables has no chain that might have to go. Raises
    IptablesError, NetlinkError, and CniError for several errors.
    """
    import re

    keep = {chain_name(OWN_PREFIX, network, owner.container_id) for owner in valid}

    def is_other(chain: str) -> bool:
        return bool(re.fullmatch(OWN_CHAIN, chain)) and chain not in keep

    with Steps() as steps:
        for family in FAMILIES:
            for program in programs_with(tables, family, _TABLE, is_other):
                present = _listed(program)
                holders = {chain: holder_of(present, chain) for chain in present if is_other(chain)}
                for chain, holder in holders.items():
                    if holder is not None and holder.network == network:
                        steps.take(_remove, tables, family, program, chain)


def _chain(owner: Owner) -> str:
    return chain_name(OWN_PREFIX, owner.network, owner.container_id)


def _of_family(forwarding: Forwarding, family: Family) -> Forwarding:
    mappings = [mapping for mapping in forwarding.mappings if mapping.address.version == family.version]
    pod = [address for address in forwarding.pod if address.version == family.version]
    conditions = {family.version: forwarding.conditions.get(family.version, ())}
    return forwarding._replace(mappings=mappings, pod=pod, conditions=conditions)


def _listed(program: Program) -> Rules:
    """Return the rules of each chain, as `iptables-save` shows them, without the `-A CHAIN`."""
    _, listing = run(program._replace(name=f"{program.name}-save"), ["-t", _TABLE])
    found: Rules = {}
    for line in listing.splitlines():
        if line.startswith(":"):
            found[line[1:].split()[0]] = []
        elif line.startswith("-A "):
            _, chain, rule = line.split(" ", 2)
            found.setdefault(chain, []).append(rule)
    return found


def _entries(present: Rules, chain: str) -> list[str]:
    return [f"{DNAT} {rule}" for rule in present.get(DNAT, []) if rule.endswith(f" -j {chain}")]


def _remove(tables: Tables, family: Family, program: Program, chain: str) -> list[ForwardedPort]:
    for attempt in range(_ATTEMPTS):
        present = _listed(program)
        if chain not in present:
            break
        changes = [*(f"-D {rule}" for rule in _entries(present, chain)), f"-F {chain}", f"-X {chain}"]
        try:
            restore(program, _TABLE, changes)
        except IptablesError:
            # The program made all changes or none. Another process may have removed a rule since the listing.
            if not program_with(tables, family, _TABLE, chain):
                break
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return [mapping for rule in present[chain] if (mapping := mapped_by(rule))]
    return []


def _refuse_taken(present: Rules, owner: Owner, forwarding: Forwarding) -> None:
    """Raise CniError (999) if another container has one of the ports."""
    import re

    chain = _chain(owner)
    for other, rules in present.items():
        if other == chain or not re.fullmatch(OWN_CHAIN, other):
            continue
        for rule in rules:
            its = mapped_by(rule)
            for mapping in forwarding.mappings:
                if its and _clash(its, mapping):
                    holder = holder_of(present, other)
                    if holder is None or holder.container_id in {"", owner.container_id}:
                        continue
                    who = f'container "{holder.container_id}" of network "{holder.network}"'
                    message = f"host port {mapping.described()} is taken: {who} has {its.described()}"
                    raise CniError(Code.INTERNAL, message)


def _clash(one: ForwardedPort, other: ForwardedPort) -> bool:
    same = (one.protocol, one.host_port) == (other.protocol, other.host_port) and one.address != other.address
    return same and (None in {one.host_address, other.host_address} or one.host_address == other.host_address)
