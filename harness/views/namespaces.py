"""The network namespaces of a node: its own, its pods', those at the ends of its links; and the owners of links."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from firewall.owner import Owner
from harness.runtime.namespace_state import NamespaceState, named_namespaces, namespace_state
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST
from harness.views.attachments import KnownAttachment
from netlink.kinds import PAIRS
from netlink.link import Link
from netlink.namespace import Namespace, NotANamespaceError, entered, open_namespace
from netlink.namespace_ids import namespace_id

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
_MOST_BETWEEN: Final = 3
"""Namespaces between two nodes that are followed from each of them: a bridge's, a router's."""


class LinkEnd(NamedTuple):
    """The other end of a veth, or the link below a VLAN or macvlan. `place` is empty if its namespace is unknown."""

    place: str
    name: str


@dataclass
class NamespaceView:
    """One network namespace: its state, and the other ends of its links by name."""

    label: str
    node: str
    """The label of the node whose own it is, or its pods'; "" for another one."""
    path: str
    state: NamespaceState
    attachments: list[KnownAttachment] = field(default_factory=list)
    peers: dict[str, LinkEnd] = field(default_factory=dict)


def read_namespaces(
    node: Node,
    known: Iterable[KnownAttachment],
    *others: tuple[Node, Sequence[KnownAttachment]],
    is_whole: bool = False,
) -> dict[str, NamespaceView]:
    """Return the node's namespace, labelled "node", then the attachments', then further ones at the ends of its links.

    With `others`, nodes with their attachments, also theirs, and those between the nodes; if `is_whole`, also those
    beside them, such as other nodes on a switch. Then a node's label is its name, and a pod's is `NODE/POD`.
    Namespaces that are gone are left out. Raises NetlinkError, OSError.
    """
    with ExitStack() as stack:
        opened = _Opened(stack)
        for each, its in ((node, known), *others):
            name = (each.name or NODE) if others else NODE
            here = opened.add(name, each.netns or THIS_HOST)
            if here is None:
                continue
            opened.views[here].node = here
            for attachment in its:
                label = f"{name}/{attachment.name}" if others else attachment.name
                if attachment.netns and (added := opened.add(label, attachment.netns, node=here)) is not None:
                    opened.views[added].attachments.append(attachment)
        if opened.views:
            opened.add_between(is_whole=is_whole)
            opened.connect()
        return opened.views


class _Opened:
    """Open namespaces by label, and what was read of them."""

    def __init__(self, stack: ExitStack) -> None:
        self.views: dict[str, NamespaceView] = {}
        self._stack = stack
        self._namespaces: dict[str, Namespace] = {}
        self._labels: dict[tuple[int, int], str] = {}

    def add(self, label: str, path: str, *, node: str = "") -> str | None:
        """Read the namespace at a path, once, and return its label; None if it is gone."""
        try:
            namespace = open_namespace(path)
        except (FileNotFoundError, NotADirectoryError, NotANamespaceError):
            return None
        if (known := self._labels.get(namespace.identity)) is not None:
            namespace.close()
            return known
        self._stack.enter_context(namespace)
        label = _unused(label, self.views)
        # The listing of links also gives numbers to the namespaces of their other ends.
        self.views[label] = NamespaceView(label, node, path, namespace_state(namespace))
        self._namespaces[label] = namespace
        self._labels[namespace.identity] = label
        return label

    def add_between(self, *, is_whole: bool) -> None:
        """Add the unknown namespaces that links of the nodes lead to; with several nodes, on until their ways meet.

        If `is_whole`, the links of the namespaces where they meet are followed, too.
        """
        is_last = not is_whole
        nodes = [label for label, view in self.views.items() if view.node == label]
        reached = {node: {node} for node in nodes}
        last = {node: {node} for node in nodes}
        for _ in range(_MOST_BETWEEN):
            for node in nodes:
                found = {label for each in last[node] for label in self._add_neighbours(each)}
                last[node] = {label for label in found - reached[node] if not self.views[label].attachments}
                reached[node] |= found
            if set.intersection(*reached.values()):
                if is_last:
                    return
                is_last = True

    def _add_neighbours(self, label: str) -> set[str]:
        """Return the namespaces that links of a namespace lead to; unknown ones are added."""
        links = self.views[label].state.links
        wanted = {link.peer_netnsid for link in links if link.peer_netnsid is not None}
        known = self._numbers(label, self.views) if wanted else {}
        found = {known[number] for number in wanted & known.keys()}
        wanted -= known.keys()
        for name, path in named_namespaces() if wanted else ():
            if not wanted:
                break
            with suppress(OSError), open_namespace(path) as candidate:
                if candidate.identity in self._labels:
                    continue
                with entered(self._namespaces[label]):
                    number = namespace_id(candidate)
                if number in wanted and (added := self.add(name, path)) is not None:
                    found.add(added)
                    wanted.discard(number)
        return found

    def connect(self) -> None:
        """Find the other end of every link."""
        for label, view in self.views.items():
            linked = [link for link in view.state.links if link.peer_ifindex]
            wanted = {link.peer_netnsid for link in linked} - {None}
            others = self._numbers(label, self._nearest(label), enough=len(wanted)) if wanted else {}
            for link in linked:
                end = self._end(label, link, others)
                if end is not None:
                    view.peers[link.name] = end

    def _end(self, label: str, link: Link, others: Mapping[int, str]) -> LinkEnd | None:
        place = label if link.peer_netnsid is None else others.get(link.peer_netnsid, "")
        if not place:
            return LinkEnd("", "")
        name = self.views[place].state.name(link.peer_ifindex)
        return LinkEnd(place, name) if name else None

    def _nearest(self, label: str) -> list[str]:
        """Return all labels, the node first: most links lead there."""
        own = self.views[label].node
        return [own, *(each for each in self.views if each != own)] if own else [*self.views]

    def _numbers(self, label: str, others: Iterable[str], enough: int = 0) -> dict[int, str]:
        """Return the numbers that a namespace has for others; the search ends when `enough` are found."""
        found: dict[int, str] = {}
        with entered(self._namespaces[label]):
            for other in others:
                number = namespace_id(self._namespaces[other])
                if number is not None:
                    found[number] = other
                if enough and len(found) == enough:
                    break
        return found


def _unused(label: str, used: Mapping[str, object]) -> str:
    number, wanted = 2, label
    while label in used:
        label, number = f"{wanted} ({number})", number + 1
    return label


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
    if found := _by_pods_result(link.name, view):
        return found
    if found := _by_alias(link, known):
        return found
    peer = view.peers.get(link.name)
    if link.kind in PAIRS and peer is not None and peer.place not in {"", view.label}:
        found = _by_pods_result(peer.name, views[peer.place])
        if found is not None:
            return found._replace(told_by=f"{found.told_by} of the other end")
    if view.label == NODE and (found := _by_result_outside(link.name, known)):
        return found
    maker = next((maker for prefix, maker in _MAKERS.items() if link.name.startswith(prefix)), "")
    return LinkOwner("program", maker, told_by="name") if maker else None


def _by_pods_result(name: str, view: NamespaceView) -> LinkOwner | None:
    for each in view.attachments:
        inside = [link.name for link in each.network.decoded().interfaces if link.sandbox]
        if name in inside or (each.network.ifname == name and each.netns):
            return _attachment(each, "result")
    return None


def _by_result_outside(name: str, known: Sequence[KnownAttachment]) -> LinkOwner | None:
    links = [[link.name for link in each.network.decoded().interfaces if not link.sandbox] for each in known]
    having = [(each, outside) for each, outside in zip(known, links, strict=True) if name in outside]
    if not having:
        return None
    (first, outside), *others = having
    # The last of the links on the node is the attachment's own: the first is a bridge, if there are two.
    if not others and len(outside) != 1 and outside[-1] == name:
        return _attachment(first, "result")
    networks = sorted({each.network.name for each, _ in having})
    return LinkOwner("network", ", ".join(networks), network=networks[0], told_by="result")


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
