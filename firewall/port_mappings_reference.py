"""Rules of the reference plugins' nftables backend (containernetworking/plugins): recognized, repaired and removed.

It keeps a rule for each port in a table of its own, with the container ID as its comment. Everything happens in the
network namespace of the socket. If that backend never ran, `holds` and `remove` are two look-ups.
"""

from fast_stdlib.typing import Final, Iterator
from firewall.iptables_program import Program, run
from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.tables import Interface, Tables, attempts
from netlink.nft_transaction import NftRule
from netlink.nft_wire import IPV4, IPV6
from netlink.nftables import NftTable

_TABLE: Final = "cni_hostport"
_PORTS: Final = "hostports"
_ALL_PORTS: Final = "hostports_all"
_OLD_PORTS: Final = "hostip_hostports"
"""Earlier releases keep the ports of single addresses there."""
_MASQUERADING: Final = "masquerading"
_CHAINS: Final = (_PORTS, _OLD_PORTS, _MASQUERADING)
_PROTOCOLS = {4: IPV4, 6: IPV6}


def repair(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Make the container's rules, and the chains that lead to them, in one transaction for each family.

    It runs nft(8), as the reference does: the conditions are in its words. Raises NetlinkError, IptablesError.
    """
    for own in forwarding.pod:
        table = _table(tables, own.version)
        lines = [_line(line, own.version) for line in _chains(forwarding, own)]
        for chain in _CHAINS:
            handles = (int.from_bytes(rule.handle) for rule in _rules(table, chain, owner))
            lines += [_line(f"delete rule {{}} {chain} handle {handle}", own.version) for handle in handles]
        for chain, rule in _own_rules(forwarding, own):
            lines.append(_line(f'add rule {{}} {chain} {rule} comment "{owner.container_id}"', own.version))
        run(Program("nft", tables.environ), ["-f", "-"], "\n".join([*lines, ""]))


def holds(tables: Tables, owner: Owner, forwarding: Forwarding) -> bool:
    """Tell whether the container has as many rules there as it has ports, and packets get there.

    Raises NetlinkError.
    """
    versions = [mapping.address.version for mapping in forwarding.mappings]
    for version in set(versions):
        table = _table(tables, version)
        if len(_rules(table, _PORTS, owner)) < versions.count(version):
            return False
        if forwarding.snat and not _rules(table, _MASQUERADING, owner):
            return False
        if not all(table.rules(chain) for chain in (_ALL_PORTS, "prerouting")):
            return False
    return bool(versions)


def remove(tables: Tables, owner: Owner, forwarding: Forwarding) -> list[ForwardedPort]:
    """Remove the container's rules; none is fine. Return the removed mappings, as `forwarding` has them.

    Raises NetlinkError.
    """
    doing = f"remove the rules of {owner.container_id} from table {_TABLE}"
    removed: list[ForwardedPort] = []
    for version in _PROTOCOLS:
        table = _table(tables, version)
        for _ in attempts(doing):
            transaction = table.transaction()
            for chain in _CHAINS:
                for rule in _rules(table, chain, owner):
                    transaction.delete_rule(chain, rule)
            if not transaction.messages:
                break
            if table.try_commit(transaction, doing):
                removed += [mapping for mapping in forwarding.mappings if mapping.address.version == version]
                break
    return removed


def _table(tables: Tables, version: int) -> NftTable:
    return NftTable(tables.netfilter(), _PROTOCOLS[version], _TABLE)


def _line(text: str, version: int) -> str:
    family = "ip" if version == 4 else "ip6"  # noqa: PLR2004 -- the version of IP
    return text.format(f"{family} {_TABLE}")


def _chains(forwarding: Forwarding, own: Interface) -> Iterator[str]:
    """Yield the lines for what all containers share, as release 1.9 has them."""
    yield 'add table {} {{ comment "CNI portmap plugin"; }}'
    for chain in (_PORTS, _OLD_PORTS, _ALL_PORTS):
        yield f"add chain {{}} {chain}"
    yield f"flush chain {{}} {_ALL_PORTS}"
    for chain in (_OLD_PORTS, _PORTS):
        yield f"add rule {{}} {_ALL_PORTS} jump {chain}"
    conditions = " ".join(forwarding.conditions.get(own.version, ()))
    for chain in ("prerouting", "output"):
        yield f"add chain {{}} {chain} {{{{ type nat hook {chain} priority -100; }}}}"
        yield f"flush chain {{}} {chain}"
        yield f"add rule {{}} {chain} {conditions} fib daddr type local jump {_ALL_PORTS}"
    if forwarding.snat:
        yield f"add chain {{}} {_MASQUERADING} {{{{ type nat hook postrouting priority 100; }}}}"


def _own_rules(forwarding: Forwarding, own: Interface) -> Iterator[tuple[str, str]]:
    """Yield the container's rules, each behind the name of its chain."""
    is_ipv4 = own.version == 4  # noqa: PLR2004 -- the version of IP
    ip, target = ("ip", str(own.ip)) if is_ipv4 else ("ip6", f"[{own.ip}]")
    for mapping in forwarding.mappings:
        if mapping.address == own.ip:
            host = f"{ip} daddr {mapping.host_address} " if mapping.host_address else ""
            yield (
                _PORTS,
                f"{host}{mapping.protocol} dport {mapping.host_port} dnat to {target}:{mapping.container_port}",
            )
    if not forwarding.snat:
        return
    everywhere = "0.0.0.0/0" if is_ipv4 else "::/0"
    sources = [everywhere] if forwarding.masquerade_all else [str(own.ip), *(["127.0.0.1"] if is_ipv4 else [])]
    for source in sources:
        yield _MASQUERADING, f"{ip} saddr {source} {ip} daddr {own.ip} masquerade"


def _rules(table: NftTable, chain: str, owner: Owner) -> list[NftRule]:
    if table.uses() is None:
        return []
    return [rule for rule in table.rules(chain) if rule.comment == owner.container_id]
