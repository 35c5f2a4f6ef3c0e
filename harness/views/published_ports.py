"""Port mappings, read from a snapshot's words of nftables and iptables: any suite's, and other programs'."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from firewall.owner import Owner
from harness.snapshot import Snapshot

_ELEMENT: Final = re.compile(r"(\S+ \S+) (ports|address_ports)[46] \{ (?:(\S+) \. )?(\w+) \. (\d+) \}")
_TARGET: Final = re.compile(r"(\S+) \. (\d+)")
_NFT_RULE: Final = re.compile(r"\b(tcp|udp|sctp|dccp) dport (\d+)\b.*\bdnat (?:ip6? )?to (\S+)")
_NFT_ADDRESS: Final = re.compile(r"\bip6? daddr (\S+)")
_IPTABLES_RULE: Final = re.compile(r"-p (\w+)\b.*--dports? (\d+)\b.* -j DNAT --to-destination (\S+)")
_IPTABLES_ADDRESS: Final = re.compile(r"(?<!! )-d (\S+?)(?:/32|/128)?(?: |$)")
_JUMP: Final = re.compile(r"-j (CNI-\S+)$")
_REFERENCE_ID: Final = re.compile(r'id: \\?"([^"\\]+)\\?"')  # in the comments of the reference's portmap


class PublishedPort(NamedTuple):
    """A port of the node that leads to a port of a pod."""

    host_address: str
    """Empty if every address of the node has the mapping."""
    host_port: int
    protocol: str
    address: str
    port: int
    container_id: str
    """Empty if the rule does not name a container."""
    made_by: str
    """The table or chain that has it."""

    def __str__(self) -> str:
        host = f"{self.host_address}:" if ":" not in self.host_address else f"[{self.host_address}]:"
        return f"{host if self.host_address else ''}{self.host_port}→{self.port}/{self.protocol}"


def published_ports(snapshot: Snapshot, place: str) -> list[PublishedPort]:
    """Return the port mappings in one place of a snapshot, each once, by port and address of the node."""
    found = [
        *_of_elements(snapshot.section(place, "nft elements")),
        *_of_nft_rules(snapshot.section(place, "nft rules")),
        *_of_iptables(snapshot.section(place, "iptables rules")),
    ]
    once = {(each.host_address, each.host_port, each.protocol, each.address): each for each in reversed(found)}
    return sorted(once.values(), key=lambda each: (each.host_port, each.protocol, each.host_address, each.address))


def _of_elements(elements: Mapping[str, object]) -> Iterator[PublishedPort]:
    for name, described in elements.items():
        element = _ELEMENT.fullmatch(name)
        if element is None or not isinstance(described, dict):
            continue
        target = _TARGET.fullmatch(str(described.get("to", "")))
        if target is None:
            continue
        owner = Owner.from_label(str(described.get("comment", "")))
        table, _, address, protocol, port = element.groups()
        identity = owner.container_id if owner is not None else ""
        yield PublishedPort(address or "", int(port), protocol, target[1], int(target[2]), identity, table)


def _of_nft_rules(rules: Mapping[str, object]) -> Iterator[PublishedPort]:
    for chain, text in _lines(rules):
        if found := _NFT_RULE.search(text):
            address = _NFT_ADDRESS.search(text)
            yield _port(address[1] if address else "", found[2], found[1], found[3], "", chain)


def _of_iptables(rules: Mapping[str, object]) -> Iterator[PublishedPort]:
    owners: dict[str, str] = {}
    for place, text in _lines(rules):
        table = place.rpartition(" ")[0]
        if (jump := _JUMP.search(text)) and (identity := _REFERENCE_ID.search(text)):
            owners[f"{table} {jump[1]}"] = identity[1]
    for chain, text in _lines(rules):
        if found := _IPTABLES_RULE.search(text):
            address = _IPTABLES_ADDRESS.search(text)
            identity = _REFERENCE_ID.search(text)
            container_id = identity[1] if identity else owners.get(chain, "")
            yield _port(address[1] if address else "", found[2], found[1], found[3], container_id, chain)


def _port(
    host_address: str, host_port: str, protocol: str, target: str, container_id: str, made_by: str
) -> PublishedPort:
    address, _, port = target.rpartition(":") if re.search(r"\]:\d+$|^[^:]+:\d+$", target) else (target, "", host_port)
    return PublishedPort(host_address, int(host_port), protocol, address.strip("[]"), int(port), container_id, made_by)


def _lines(rules: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for chain, texts in rules.items():
        yield from ((chain, str(text)) for text in (texts if isinstance(texts, list) else []))
