"""The network namespaces of a node: its own, its pods', and those at the other ends of its links."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.runtime.live_namespaces import named_namespaces
from harness.runtime.namespace_state import NamespaceState, namespace_state
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST
from harness.views.attachments import KnownAttachment
from netlink.link import Link
from netlink.namespace import Namespace, NotANamespaceError, entered, open_namespace
from netlink.namespace_ids import namespace_id


class LinkEnd(NamedTuple):
    """The other end of a veth, or the link below a VLAN or macvlan. `place` is empty if its namespace is unknown."""

    place: str
    name: str


@dataclass
class NamespaceView:
    """One network namespace: its state, and the other ends of its links by name."""

    label: str
    path: str
    state: NamespaceState
    attachments: list[KnownAttachment] = field(default_factory=list)
    peers: dict[str, LinkEnd] = field(default_factory=dict)


def read_namespaces(node: Node, known: Iterable[KnownAttachment]) -> dict[str, NamespaceView]:
    """Return the node's namespace, labelled "node", then the attachments', then further ones at the ends of its links.

    Namespaces that are gone are left out. Raises NetlinkError, OSError.
    """
    with ExitStack() as stack:
        opened = _Opened(stack)
        here = opened.add(NODE, node.netns or THIS_HOST)
        if here is None:
            return {}
        for attachment in known:
            if attachment.netns and (label := opened.add(attachment.name, attachment.netns)) is not None:
                opened.views[label].attachments.append(attachment)
        opened.add_neighbours()
        opened.connect()
        return opened.views


class _Opened:
    """Open namespaces by label, and what was read of them."""

    def __init__(self, stack: ExitStack) -> None:
        self.views: dict[str, NamespaceView] = {}
        self._stack = stack
        self._namespaces: dict[str, Namespace] = {}
        self._labels: dict[tuple[int, int], str] = {}

    def add(self, label: str, path: str) -> str | None:
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
        self.views[label] = NamespaceView(label, path, namespace_state(namespace))
        self._namespaces[label] = namespace
        self._labels[namespace.identity] = label
        return label

    def add_neighbours(self) -> None:
        """Add the unknown namespaces that links of the node lead to."""
        here = self.views[NODE].state
        wanted = {link.peer_netnsid for link in here.links if link.peer_netnsid is not None}
        wanted -= self._numbers(NODE, self.views).keys()
        if not wanted:
            return
        for label, path in named_namespaces():
            if not wanted:
                return
            with suppress(OSError), open_namespace(path) as candidate:
                if candidate.identity in self._labels:
                    continue
                with entered(self._namespaces[NODE]):
                    number = namespace_id(candidate)
                if number in wanted and self.add(label, path) is not None:
                    wanted.discard(number)

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
        """Return the other labels, the node first: most links lead there."""
        return [NODE, *(each for each in self.views if each not in {NODE, label})] if label != NODE else [*self.views]

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
