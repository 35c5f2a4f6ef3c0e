"""Expressions of nftables rules of other programs, read as far as a few questions need it.

Interface: include/uapi/linux/netfilter/nf_tables.h. iptables makes its own targets as expressions, too.
"""

from lean.typing import Iterator
from netlink.nft_transaction import NftRule
from netlink.nft_wire import DROP, number
from netlink.wire import items, string, values

_NAME, _DATA = 1, 2  # NFTA_EXPR_*
_IMMEDIATE_DATA = 2
_VERDICT, _VERDICT_CODE = 2, 1
_TARGET_NAME = 1
_MATCH_NAME, _MATCH_INFO = 1, 3  # NFTA_MATCH_*
_COMPARED_DATA = 3  # NFTA_CMP_DATA
_VALUE = 1


def refuses(rule: NftRule) -> bool:
    """Tell whether the rule drops or rejects the packets that it matches."""
    return any(_refuses(name, encoded) for name, encoded in _expressions(rule))


def mentions(rule: NftRule, value: bytes) -> bool:
    """Tell whether the rule compares a part of packets with `value`, such as an address."""
    compared = (values(encoded) for name, encoded in _expressions(rule) if name == "cmp")
    return any(values(each.get(_COMPARED_DATA, b"")).get(_VALUE) == value for each in compared)


def matches(rule: NftRule, kind: str) -> list[bytes]:
    """Return the settings of the rule's matches of a kind of iptables, such as "multiport": structs of the kernel."""
    found = (values(encoded) for name, encoded in _expressions(rule) if name == "match")
    return [each.get(_MATCH_INFO, b"") for each in found if string(each.get(_MATCH_NAME, b"")) == kind]


def _refuses(name: str, encoded: bytes) -> bool:
    if name == "reject":
        return True
    attributes = values(encoded)
    if name == "target":
        return string(attributes.get(_TARGET_NAME, b"")) == "REJECT"
    verdict = values(values(attributes.get(_IMMEDIATE_DATA, b"")).get(_VERDICT, b"")) if name == "immediate" else {}
    return _VERDICT_CODE in verdict and number(verdict[_VERDICT_CODE]) == DROP


def _expressions(rule: NftRule) -> Iterator[tuple[str, bytes]]:
    for _, item in items(rule.expressions):
        expression = values(item)
        yield string(expression[_NAME]), expression.get(_DATA, b"")
