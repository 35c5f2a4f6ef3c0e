"""Admission of a pod's traffic through the node's firewall, by the backend that `backend` names.

Without a name, the node's own firewall decides: firewalld if it runs, as with the reference plugins; else nftables. No
accept of nftables overrides another table's drop. So if iptables' chain FORWARD refuses packets of an address family,
that family's rules of the reference plugins are made, too. Both are found by look-ups of netlink; a program is run only
if the kernel has tables of the older iptables.

Every backend has the pod in the table of `admission_nft`, which names its owner. A pod may have been added by the
reference plugins, or with another `backend`. So removal and GC go through all backends.

The other backends are imported in functions: a DEL that finds no address in that table does without them.
"""

from fast_stdlib.typing import Collection, Final
from firewall import admission_nft
from firewall.admission_table import Admission
from firewall.iptables_program import find, run
from firewall.iptables_variant import FAMILIES, programs_with
from firewall.owner import Owner
from firewall.tables import Interface, Tables
from netlink.nft_wire import DROP, INET
from netlink.nftables import NftTable, refuses
from skel.steps import Steps

NFTABLES: Final = "nftables"
IPTABLES: Final = "iptables"
FIREWALLD: Final = "firewalld"
_IPTABLES_TABLE = "filter"
_FORWARD = "FORWARD"


def apply(tables: Tables, owner: Owner, admission: Admission, *, as_reference: bool = False) -> None:
    """Let the traffic of the addresses pass, and restrict the ingress. Raises OSError.

    Existing rules stay. `as_reference` makes the rules of the reference plugins alone, which their DEL removes.
    """
    from firewall import admission_firewalld, admission_iptables

    backend = _chosen(tables, admission)
    if as_reference:
        if backend != FIREWALLD:  # the reference plugins have no backend for nftables
            admission_iptables.apply(tables, owner, admission)
            return
        admission_firewalld.apply(tables, owner, admission)
        if admission.ingress:
            admission_iptables.restrict(tables, admission)
        return
    own = admission._replace(ingress=None) if backend == IPTABLES else admission
    admission_nft.apply(tables, owner, own)
    if backend == IPTABLES:
        admission_iptables.apply(tables, owner, admission)
    elif backend == FIREWALLD:
        admission_firewalld.apply(tables, owner, admission)
    else:
        refused = _refused(tables, admission)
        if refused:
            admission_iptables.apply(tables, owner, admission._replace(addresses=refused, ingress=None))


def remove(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Remove the rules of `apply`, from any backend or plugin suite; no rules are fine. Raises OSError, CniError.

    Without addresses in `admission`, all of the owner's go. After an error the table of `admission_nft` keeps them, for
    the next DEL or GC.
    """
    with Steps() as steps:
        # Runtimes repeat DEL with the same result, when the address may be a new pod's.
        others = steps.take(admission_nft.others, tables, owner, admission.addresses) or ()
        known = [each for each in admission.addresses if each not in others]
        known += steps.take(admission_nft.addresses_of, tables, owner) or ()
        own = admission._replace(addresses=list({each.ip: each for each in reversed(known)}.values()))
        if own.addresses:
            from firewall import admission_iptables

            steps.take(admission_iptables.remove, tables, owner, own)
            steps.take(_remove_from_firewalld, tables, owner, own)
        # Last: it lists the addresses, and a repeated DEL may have no result that names them.
        if not steps.failures:
            steps.take(admission_nft.remove, tables, owner, own)


def missing(tables: Tables, owner: Owner, admission: Admission) -> list[str]:
    """Return the missing parts of the admission, in words; none if all is in force. Raises OSError.

    If the owner's addresses are known, others in `admission` are a later plugin's, which ADD has not admitted.
    """
    from firewall import admission_iptables

    listed = {address.ip for address in admission_nft.addresses_of(tables, owner)}
    own = [address for address in admission.addresses if address.ip in listed]
    admission = admission._replace(addresses=own or admission.addresses)
    backend = _chosen(tables, admission)
    alone = [admission._replace(addresses=[address], ingress=None) for address in admission.addresses]
    lacks = [
        f"{each.addresses[0].ip} is not admitted by {backend}"
        for each in alone
        if not _holds(tables, owner, each, backend)
    ]
    ingress = admission.ingress if admission.addresses else None
    if ingress and not (
        (backend != IPTABLES and admission_nft.restricts(tables, owner, ingress))
        or admission_iptables.restricts(tables, owner, admission)
    ):
        lacks.append(f'ingressPolicy "{ingress.policy}" is not in force on "{ingress.bridge}"')
    return lacks


def collect(tables: Tables, network: str, valid: Collection[Owner], admission: Admission) -> None:
    """Remove the rules of the network's attachments that are not in `valid`; go on past errors. O(n).

    `admission` names the zone. Raises OSError, CniError.
    """
    stale = {owner for _, owner in admission_nft.admitted(tables) if owner.in_network(network) and owner not in valid}
    with Steps() as steps:
        for owner in stale:
            steps.take(remove, tables, owner, admission._replace(addresses=(), ingress=None))
            if any(isinstance(failure, TimeoutError) for failure in steps.failures):
                break  # each of the others would wait as long


def lack(tables: Tables, admission: Admission) -> str:
    """Return why the backend cannot admit a pod now, or nothing. Raises OSError if the kernel has no nftables."""
    from firewall import admission_firewalld

    if admission.backend == IPTABLES:
        programs = [f"{family.program}{ending}" for family in FAMILIES for ending in ("", "-restore")]
        absent = [program for program in programs if find(program, tables.environ) is None]
        return f"no program {', '.join(absent)}" if absent else ""
    if _chosen(tables, admission) == FIREWALLD:
        if not admission_firewalld.has_zone(tables.environ, admission.zone):
            return f'firewalld has no zone "{admission.zone}"'
        return ""
    admission_nft.admitted(tables)
    return ""


def refuses_forwarding(tables: Tables, version: int) -> bool:
    """Tell whether iptables' chain FORWARD refuses packets of an address family, by its policy or a rule of its own.

    Chains that it jumps to are not looked at: they are about other programs' networks. Raises OSError.
    """
    (family,) = (each for each in FAMILIES if each.version == version)
    table = NftTable(tables.netfilter(), family.protocol, _IPTABLES_TABLE)
    chain = table.chain(_FORWARD)
    if chain and (chain.policy == DROP or (chain.uses and any(map(refuses, table.rules(_FORWARD))))):
        return True
    listed: list[str] = []
    for program in programs_with(tables, family, _IPTABLES_TABLE, lambda _: False):
        listed += run(program, ["-w", "-t", _IPTABLES_TABLE, "-S", _FORWARD], check=False)[1].splitlines()
    return any(line == f"-P {_FORWARD} DROP" or "-j DROP" in line or "-j REJECT" in line for line in listed)


def _chosen(tables: Tables, admission: Admission) -> str:
    from firewall import admission_firewalld

    if admission.backend:
        return admission.backend
    runs = _has_firewalld(tables) and admission_firewalld.is_running(tables.environ)
    return FIREWALLD if runs else NFTABLES


def _refused(tables: Tables, admission: Admission) -> list[Interface]:
    """Return the addresses whose packets iptables refuses, if the backend is not named."""
    if admission.backend:
        return []
    versions = {address.version for address in admission.addresses}
    refused = {version for version in versions if refuses_forwarding(tables, version)}
    return [address for address in admission.addresses if address.version in refused]


def _holds(tables: Tables, owner: Owner, admission: Admission, backend: str) -> bool:
    from firewall import admission_firewalld, admission_iptables

    if backend == FIREWALLD:
        return admission_firewalld.holds(tables, owner, admission)
    if backend == IPTABLES or _refused(tables, admission):
        return admission_iptables.holds(tables, owner, admission)
    # The reference plugins know no nftables.
    return admission_nft.holds(tables, owner, admission) or admission_iptables.holds(tables, owner, admission)


def _remove_from_firewalld(tables: Tables, owner: Owner, admission: Admission) -> None:
    from firewall import admission_firewalld

    if admission.backend == FIREWALLD or _has_firewalld(tables):
        admission_firewalld.remove(tables, owner, admission)


def _has_firewalld(tables: Tables) -> bool:
    """Tell whether firewalld has rules here, by nftables or by iptables. Raises NetlinkError."""
    netfilter = tables.netfilter()
    own = NftTable(netfilter, INET, "firewalld").uses_question()
    direct = [
        NftTable(netfilter, family.protocol, _IPTABLES_TABLE).chain_question("FORWARD_direct") for family in FAMILIES
    ]
    netfilter.look_up(own, *direct)
    return own.found is not None or any(each.found is not None for each in direct)
