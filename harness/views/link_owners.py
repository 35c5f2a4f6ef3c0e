"""The owner of a link: the attachment or the networks that it was made for, and the source that says so."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from firewall.owner import Owner
from harness.views.attachments import KnownAttachment
from harness.views.namespaces import NamespaceView
from netlink.kinds import PAIRS
from netlink.link import Link

OwnerKind: TypeAlias = Literal["attachment", "network", "unknown attachment", "program"]

_MAKERS: Final = {
    "cali": "Calico",
    "cilium_": "Cilium",
    "lxc": "Cilium",
    "docker0": "Docker",
    "br-": "Docker",
    "flannel.": "Flannel",
    "virbr": "libvirt",
    "podman": "Podman",
    "azv": "Azure CNI",
    "eni": "AWS VPC CNI",
}
"""Programs by the names of links that they make."""


class LinkOwner(NamedTuple):
    """An owner, and the source that names it.

    "unknown attachment" is named by the link's alias, but by no record and no cache.
    """

    kind: OwnerKind
    name: str
    """The pod, the networks or the program."""
    network: str = ""
    container_id: str = ""
    ifname: str = ""
    told_by: str = ""


def owner_of(
    link: Link, view: NamespaceView, views: Mapping[str, NamespaceView], known: Sequence[KnownAttachment]
) -> LinkOwner | None:
    """Return the owner of a link of `view`, None if nothing names one.

    Results name links; aliases name the attachments of this project's veths. Both ends of a veth have one owner.
    """
    if found := _by_result(link.name, view, view.attachments, inside=True):
        return found
    if found := _by_alias(link, known):
        return found
    peer = view.peers.get(link.name)
    if link.kind in PAIRS and peer is not None and peer.place and peer.place != view.label:
        other = views[peer.place]
        if found := _by_result(peer.name, other, other.attachments, inside=True):
            return found._replace(told_by=f"{found.told_by} of the other end")
    if found := _by_result(link.name, view, known, inside=False):
        return found
    maker = next((maker for prefix, maker in _MAKERS.items() if link.name.startswith(prefix)), "")
    return LinkOwner("program", maker, told_by="name") if maker else None


def _by_result(
    name: str, view: NamespaceView, attachments: Iterable[KnownAttachment], *, inside: bool
) -> LinkOwner | None:
    having = [
        each
        for each in attachments
        if (inside and each.network.ifname == name and each.netns)
        or any(
            link.name == name and (bool(link.sandbox) if inside else not link.sandbox)
            for link in each.network.decoded().interfaces
        )
    ]
    if not inside and view.label != "node":
        return None
    if not having:
        return None
    networks = sorted({each.network.name for each in having})
    if not inside and (len(having) > 1 or not _is_its_own(name, having[0])):
        return LinkOwner("network", ", ".join(networks), network=networks[0], told_by="result")
    return _attachment(having[0], "result")


def _is_its_own(name: str, attachment: KnownAttachment) -> bool:
    """Tell whether a link on the node is the last of its result there: the first is a bridge, if there are two."""
    outside = [link.name for link in attachment.network.decoded().interfaces if not link.sandbox]
    return len(outside) != 1 and outside[-1] == name


def _by_alias(link: Link, known: Iterable[KnownAttachment]) -> LinkOwner | None:
    owner = Owner.from_label(link.alias) if link.alias else None
    if owner is None:
        return None
    for each in known:
        if Owner(*each.key) == owner:
            return _attachment(each, "alias")
    return LinkOwner("unknown attachment", owner.container_id[:12], *owner, told_by="alias")


def _attachment(known: KnownAttachment, told_by: str) -> LinkOwner:
    return LinkOwner("attachment", known.name, *known.key, told_by=told_by)
