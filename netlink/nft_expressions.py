"""Expressions of nftables rules, as the kernel takes them: each function returns a part of a rule.

A rule is the parts joined: `[*source(4), *matched("blocked"), *verdict(DROP)]`. Expressions work on registers of 16
bytes: one loads a value, the next compares it or looks it up.
Interface: include/uapi/linux/netfilter/nf_tables.h.
"""

import struct
from sys import byteorder

from fast_stdlib.ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from netlink.nft_wire import IPV4, IPV6, Attributes

REGISTER, NEXT_REGISTER = 1, 2
"""The register that values are loaded into by default, and the one behind it, for keys of two parts."""
WORD = 8
"""The first of the registers of 4 bytes, which are parts of the others: REGISTER has those from 8 to 11."""

LINK_HEADER, NETWORK_HEADER, TRANSPORT_HEADER = 0, 1, 2  # NFT_PAYLOAD_*_HEADER
IIFNAME, OIFNAME, NFPROTO, L4PROTO = 6, 7, 15, 16  # NFT_META_*
_IIF = 4

ESTABLISHED, RELATED = 1 << 1, 1 << 2  # NF_CT_STATE_BIT of IP_CT_*

_LIST_ITEM = 1
_CT_STATE = 0  # NFT_CT_STATE
_NAME, _DATA = 1, 2  # NFTA_EXPR_*
_VALUE, _VERDICT = 1, 2  # NFTA_DATA_*
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_VERDICT_REGISTER = 0
_INVERTED = 1  # NFT_LOOKUP_F_INV
_EQUAL, _UNEQUAL = 0, 1  # NFT_CMP_*
_PROTOCOLS = {4: IPV4, 6: IPV6}
# Offset of the source address in the IP header, and the length of an address, in bytes.
_ADDRESSES = {4: (12, 4), 6: (8, 16)}
_ETHERNET_SOURCE = (6, 6)
_PORT = (2, 2)  # of the destination, in the headers of TCP, UDP and SCTP
_FIB_ADDRESS_TYPE, _FIB_SOURCE, _FIB_DESTINATION = 3, 1, 2  # NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_SADDR, _DADDR
_RTN_LOCAL = 2
_CT_STATUS, _DESTINATION_NAT = 2, 1 << 5  # NFT_CT_STATUS, IPS_DST_NAT
_NAT_DESTINATION = 1  # NFT_NAT_DNAT


def expression(name: str, *attributes: tuple[int, "int | str | bytes | Attributes"]) -> Attributes:
    """One expression by its kernel name, with its attributes by their numbers."""
    return [(_LIST_ITEM, [(_NAME, name), (_DATA, attributes)])]


def meta(key: int, register: int = REGISTER) -> Attributes:
    """Load a fact about the packet: `IIFNAME`, `L4PROTO`, …."""
    return expression("meta", (1, register), (2, key))


def payload(header: int, offset: int, length: int, register: int = REGISTER) -> Attributes:
    """Load `length` bytes of the packet, from byte `offset` of a header (`NETWORK_HEADER`, …)."""
    return expression("payload", (1, register), (2, header), (3, offset), (4, length))


def masked(mask: bytes) -> Attributes:
    """`& MASK`, for the value that was loaded."""
    operands = (4, [(_VALUE, mask)]), (5, [(_VALUE, bytes(len(mask)))])  # (register & mask) ^ nothing
    return expression("bitwise", (1, REGISTER), (2, REGISTER), (3, len(mask)), *operands)


def compared(value: bytes, *, unequal: bool = False) -> Attributes:
    """`== VALUE`, or `!= VALUE`: the rest of the rule is for packets that match."""
    comparison = _UNEQUAL if unequal else _EQUAL
    return expression("cmp", (1, REGISTER), (2, comparison), (3, [(_VALUE, value)]))


def family_is(version: int) -> Attributes:
    """`meta nfproto`: nft(8), too, puts it before a match on an IP header in a table of family inet."""
    return [*meta(NFPROTO), *compared(bytes([_PROTOCOLS[version]]))]


def source(version: int) -> Attributes:
    """`ip saddr` or `ip6 saddr`, to be looked up."""
    offset, length = _ADDRESSES[version]
    return [*family_is(version), *payload(NETWORK_HEADER, offset, length)]


def destination(version: int) -> Attributes:
    """`ip daddr` or `ip6 daddr`, to be looked up."""
    offset, length = _ADDRESSES[version]
    return [*family_is(version), *payload(NETWORK_HEADER, offset + length, length)]


def connection_state(*states: int) -> Attributes:
    """`ct state A,B`: the rest of the rule is for packets in one of these states (`ESTABLISHED`, `RELATED`)."""
    load = expression("ct", (1, REGISTER), (2, _CT_STATE))
    return [*load, *masked(struct.pack("=I", sum(states))), *compared(bytes(4), unequal=True)]


def destination_address(version: int, register: int = REGISTER) -> Attributes:
    """`ip daddr` or `ip6 daddr` behind a match of the family, to be looked up."""
    offset, length = _ADDRESSES[version]
    return payload(NETWORK_HEADER, offset + length, length, register)


def destination_port(register: int = REGISTER) -> Attributes:
    """`th dport`: of TCP, UDP or SCTP."""
    return payload(TRANSPORT_HEADER, *_PORT, register)


def source_within(network: IPv4Network | IPv6Network) -> Attributes:
    """`ip saddr NETWORK` or `ip6 saddr NETWORK`, behind a match of the family."""
    load = payload(NETWORK_HEADER, *_ADDRESSES[network.version])
    return [*load, *masked(network.netmask.packed), *compared(network.network_address.packed)]


def is_destination_local() -> Attributes:
    """`fib daddr type local`: the packet is for an address of this host."""
    load = expression("fib", (1, REGISTER), (2, _FIB_ADDRESS_TYPE), (3, _FIB_DESTINATION))
    return [*load, *compared(_RTN_LOCAL.to_bytes(4, byteorder))]


def is_source_foreign() -> Attributes:
    """`fib saddr type != local`: the packet is from no address of this host."""
    load = expression("fib", (1, REGISTER), (2, _FIB_ADDRESS_TYPE), (3, _FIB_SOURCE))
    return [*load, *compared(_RTN_LOCAL.to_bytes(4, byteorder), unequal=True)]


def has_no_input() -> Attributes:
    """`iif 0`: in postrouting, the packets of this host, and those that a bridge forwards (br_netfilter)."""
    return [*meta(_IIF), *compared(bytes(4))]


def is_destination_rewritten() -> Attributes:
    """`ct status dnat`: the connection's destination was rewritten."""
    load = expression("ct", (1, REGISTER), (2, _CT_STATUS))
    return [*load, *masked(_DESTINATION_NAT.to_bytes(4, byteorder)), *compared(bytes(4), unequal=True)]


def rewrite_destination(version: int) -> Attributes:
    """`dnat ip to` or `dnat ip6 to`, behind a look-up that has loaded the address and the port."""
    _, length = _ADDRESSES[version]
    port = WORD + length // 4
    return expression("nat", (1, _NAT_DESTINATION), (2, _PROTOCOLS[version]), (3, REGISTER), (5, port))


def destination_outside(*networks: IPv4Network | IPv6Network) -> Attributes:
    """`ip daddr != NETWORK` for each of one family's `networks`, or `ip6 daddr != NETWORK`."""
    comparisons = [_destination(network, unequal=True) for network in networks]
    return [*family_is(networks[0].version), *(expression for each in comparisons for expression in each)]


def destination_inside(network: IPv4Network | IPv6Network) -> Attributes:
    """`ip daddr NETWORK` or `ip6 daddr NETWORK`."""
    return [*family_is(network.version), *_destination(network, unequal=False)]


def leaving(address: IPv4Interface | IPv6Interface) -> Attributes:
    """`ip saddr ADDRESS ip daddr != NETWORK`, the address's own, or the same of ip6."""
    return [*source(address.version), *compared(address.ip.packed), *_destination(address.network, unequal=True)]


def incoming_port() -> Attributes:
    """`iifname`, to be looked up: in family bridge, the bridge's port that a frame came in by."""
    return meta(IIFNAME)


def source_ethernet(register: int = NEXT_REGISTER) -> Attributes:
    """`ether saddr`; in the next register, behind `incoming_port`, it is `. ether saddr` for a look-up of both."""
    return payload(LINK_HEADER, *_ETHERNET_SOURCE, register=register)


def matched(name: str, *, absent: bool = False, verdicts: bool = False, values: bool = False) -> Attributes:
    """`@NAME`, `!= @NAME`, `vmap @NAME` or `map @NAME`, for the key that the expressions before it have loaded.

    With `values`, the key's value is loaded instead of it.
    """
    attributes: list[tuple[int, int | str]] = [(1, name), (2, REGISTER)]
    if verdicts:
        attributes.append((3, _VERDICT_REGISTER))
    if values:
        attributes.append((3, REGISTER))
    if absent:
        attributes.append((5, _INVERTED))
    return expression("lookup", *attributes)


def counted(version: int, name: str) -> Attributes:
    """`counter name ip saddr map @NAME` behind a match of the family: it matches if the map has the address."""
    return [*payload(NETWORK_HEADER, *_ADDRESSES[version]), *expression("objref", (3, REGISTER), (4, name))]


def verdict(code: int, chain: str = "") -> Attributes:
    """`drop`, `accept`, or with `chain` `jump CHAIN` and `goto CHAIN`: the codes are in `netlink.nft_wire`."""
    target: list[tuple[int, int | str]] = [(_VERDICT_CODE, code)]
    if chain:
        target.append((_VERDICT_CHAIN, chain))
    return expression("immediate", (1, _VERDICT_REGISTER), (2, [(_VERDICT, target)]))


def masquerading() -> Attributes:
    """`masquerade`."""
    return expression("masq")


def _destination(network: IPv4Network | IPv6Network, *, unequal: bool) -> Attributes:
    offset, length = _ADDRESSES[network.version]
    load = payload(NETWORK_HEADER, offset + length, length)
    mask = [] if network.prefixlen == network.max_prefixlen else masked(network.netmask.packed)
    return [*load, *mask, *compared(network.network_address.packed, unequal=unequal)]
