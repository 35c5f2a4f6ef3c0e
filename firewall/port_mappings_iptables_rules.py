"""The rules of `firewall.port_mappings_iptables`, as iptables-save(8) shows them."""

from itertools import pairwise
from struct import unpack_from
from sys import byteorder

from fast_stdlib.ipaddress import ip_address, ip_network
from fast_stdlib.typing import Collection, Final
from firewall.iptables_program import escaped
from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.tables import host_network, with_port
from netlink.nft_transaction import NftRule
from netlink.nftables import matches

Rules = dict[str, list[str]]
"""Rules by chain."""

DNAT: Final = "CNI-HOSTPORT-DNAT"
SET_MARK: Final = "CNI-HOSTPORT-SETMARK"
MASQUERADE: Final = "CNI-HOSTPORT-MASQ"
OWN_PREFIX: Final = "CNI-DN-"
OWN_CHAIN: Final = r"CNI-DN-[0-9a-f]{21}"
"""A regular expression."""
_MULTIPORT = b"multiport"
_PORTS_PER_RULE = 15
"""The most ports of one `multiport` match."""
_COMMENT_LENGTH = 255
"""Bytes that iptables keeps of a comment."""
_HOLDER = r'--comment "dnat name: \\"(.*)\\" id: \\"(.*?)(?:\\"|\.\.\.|)" '


def common_rules(forwarding: Forwarding) -> Rules:
    """Return the rules that all containers share, by chain."""
    rules: Rules = {}
    if forwarding.snat and forwarding.set_mark_chain is None:
        mark = f"{1 << forwarding.mark_bit:#x}"
        comment = '-m comment --comment "CNI portfwd'
        rules[SET_MARK] = [f'{comment} masquerade mark" -j MARK --set-xmark {mark}/{mark}']
        rules[MASQUERADE] = [f"-m mark --mark {mark}/{mark} -j MASQUERADE"]
        rules["POSTROUTING"] = [f'{comment} requiring masquerade" -j {MASQUERADE}']
    rules[DNAT] = []
    for chain in ("PREROUTING", "OUTPUT"):
        rules[chain] = [f"-m addrtype --dst-type LOCAL -j {DNAT}"]
    return rules


def own_rules(chain: str, forwarding: Forwarding) -> list[str]:
    """Return the rules of a container's own chain, each behind the chain's name."""
    target = forwarding.set_mark_chain or SET_MARK
    rules = []
    for mapping in forwarding.mappings:
        host = "" if mapping.host_address is None else f"-d {host_network(mapping.host_address)} "
        match = f"{host}-p {mapping.protocol} -m {mapping.protocol} --dport {mapping.host_port}"
        if forwarding.snat:
            # The whole subnet: a neighbour of the pod would get the answer from an address that it did not ask.
            sources = [f"-s {address.network} " for address in forwarding.pod]
            if mapping.address.version == 4:  # noqa: PLR2004 -- IPv4
                sources.append("-s 127.0.0.1/32 ")
            if forwarding.masquerade_all:
                sources = [""]
            rules += [f"{chain} {source}{match} -j {target}" for source in sources]
        target_port = with_port(mapping.address, mapping.container_port)
        rules.append(f"{chain} {match} -j DNAT --to-destination {target_port}")
    return rules


def entry_rules(chain: str, owner: Owner, forwarding: Forwarding) -> list[str]:
    """Return the rules that lead from the common chain to the container's."""
    comment = f'-m comment --comment "{escaped(_comment(owner))}"'
    (conditions,) = forwarding.conditions.values() or [()]
    rules = []
    # Those of both families, as the reference has them.
    for protocol in sorted({protocol for protocol, _ in forwarding.asked}):
        ports = [port for its, port in forwarding.asked if its == protocol]
        for start in range(0, len(ports), _PORTS_PER_RULE):
            listed = ",".join(map(str, ports[start : start + _PORTS_PER_RULE]))
            words = [f"{DNAT} -p {protocol} {comment} -m multiport --dports {listed}", *map(_quoted, conditions)]
            rules.append(" ".join([*words, f"-j {chain}"]))
    return rules


def is_entry(rule: str, chain: str, mapping: ForwardedPort) -> bool:
    """Tell whether a rule of the common chain leads to a container's for a port."""
    words = rule.split()
    if words[-1] != chain or "--dports" not in words or f"-p {mapping.protocol} " not in rule:
        return False
    return str(mapping.host_port) in words[words.index("--dports") + 1].split(",")


def is_unconditional(rule: str) -> bool:
    """Tell whether a rule of the common chain leads to a container's for all packets to its ports."""
    # iptables-save(8) shows addresses and interfaces before the protocol, and other matches in their order.
    return rule.startswith("-p ") and "--dports" in rule.split()[-4:-2]


def is_for(rule: NftRule, ports: Collection[int]) -> bool:
    """Tell whether a rule of the common chain may be for one of these ports, whatever its protocol."""
    # Reading a rule takes twenty times as long as this, and most rules are for other ports.
    if _MULTIPORT in rule.expressions and not any(each.to_bytes(2, byteorder) in rule.expressions for each in ports):
        return False
    found = matches(rule, _MULTIPORT.decode())
    if not found:
        return True
    # struct xt_multiport_v1: flags, count, 15 ports; in the machine's byte order.
    return any(port in ports for info in found for port in unpack_from(f"={min(info[1], _PORTS_PER_RULE)}H", info, 2))


def mapped_by(rule: str) -> ForwardedPort | None:
    """Return the mapping that a rule of a container's own chain makes; None for another rule."""
    words = rule.split()
    found = dict(pairwise(words))
    address, _, port = found.get("--to-destination", "").rpartition(":")
    if not port.isdecimal() or "--dport" not in found:
        return None
    host = ip_network(found["-d"]).network_address if "-d" in found else None
    return ForwardedPort(found["-p"], int(found["--dport"]), ip_address(address.strip("[]")), int(port), host)


def holder_of(present: Rules, chain: str) -> Owner | None:
    """Return the owner of a container's chain, without its interface; None if no rule leads there."""
    import re

    for rule in present.get(DNAT, []):
        found = re.search(_HOLDER, rule)
        if rule.endswith(f" -j {chain}") and found:
            network, container_id = (re.sub(r"\\(.)", r"\1", part) for part in found.groups())
            return Owner(network, container_id, "")
    return None


def _comment(owner: Owner) -> str:
    comment = f'dnat name: "{owner.network}" id: "{owner.container_id}"'
    if len(comment.encode()) <= _COMMENT_LENGTH:
        return comment
    return comment.encode()[: _COMMENT_LENGTH - 2].decode(errors="ignore") + "..."


def _quoted(word: str) -> str:
    """Return an argument as a line for iptables-restore(8) has it."""
    plain = word and not any(character.isspace() or character in "\"'\\" for character in word)
    return word if plain else f'"{escaped(word)}"'
