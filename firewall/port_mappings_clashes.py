"""Ports of the host that another container has: an ADD is refused, with the holder's name."""

from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.port_mappings_elements import Place, SeenPorts, general_place, mapping_in, place_of, rivals_of, words
from netlink.nft_wire import Element
from netlink.nftables import Table
from skel import CniError, Code


def is_elsewhere(element: Element, owner: Owner) -> bool:
    """Tell whether an element is of another attachment of the owner's container, which may keep it."""
    its = Owner.from_label(element.comment)
    return its is not None and its != owner and _container(its) == _container(owner)


def _container(owner: Owner) -> str:
    parts = owner.label().split("/")
    return parts[1]


def is_stale(element: Element, value: bytes) -> bool:
    """Tell whether an element leads to the address of the pod: its owner is gone, since the address was reused."""
    return not value or element.value[:-4] == value[:-4]


def refuse_taken(table: Table, seen: SeenPorts, owner: Owner, forwarding: Forwarding) -> None:
    """Raise CniError (999) if another container has one of the ports."""
    for mapping in forwarding.mappings:
        wanted = words(Forwarding(mappings=[mapping], snat=False))
        ((word, value),) = wanted.items()
        for place in (place_of(word), general_place(mapping)):
            present = seen.elements.get(place)
            if present and not _is_own(present, owner) and not is_stale(present, value):
                raise _taken(mapping, place, present)
    refuse_rivals(table, owner, forwarding, seen)


def refuse_rivals(table: Table, owner: Owner, forwarding: Forwarding, seen: SeenPorts | None = None) -> None:
    """Raise CniError (999) if another container has a port, that the pod gets on all addresses, on one of them."""
    general = [mapping for mapping in forwarding.mappings if mapping.host_address is None]
    if not general or (seen is not None and seen.uses is None):
        return
    rivals = {name: table.elements(name) for name in {rivals_of(mapping)[0] for mapping in general}}
    for mapping in general:
        name, ending = rivals_of(mapping)
        for present in rivals[name]:
            if not present.key.endswith(ending) or _is_own(present, owner):
                continue
            if present.value[:-4] != mapping.address.packed:
                raise _taken(mapping, Place(name, present.key), present)


def _is_own(element: Element, owner: Owner) -> bool:
    return element.comment == owner.label() or is_elsewhere(element, owner)


def _taken(mapping: ForwardedPort, place: Place, element: Element) -> CniError:
    its = mapping_in(place, element.value)
    held = its.described() if its else "it"
    holder = Owner.from_label(element.comment)
    who = f'container "{holder.container_id}" of network "{holder.network}"' if holder else f'"{element.comment}"'
    return CniError(Code.INTERNAL, f"host port {mapping.described()} is taken: {who} has {held}")
