"""The attachments that a node has traces of, and the rule that says which of them are leftovers.

A trace is a cached result, a reservation of host-local, an interface of the node or an entry of our nftables tables
that names its attachment. The rule is "keep if in doubt". An attachment is a leftover if all of this holds:

1. its container is on no record of this program;
2. no network namespace that exists has one of its addresses, or the other end of its interface;
3. no cached result names it whose namespace exists; a namespace that cannot be examined counts as existing;
4. it was seen so twice, unchanged, at least a minimum age apart: another runtime's ADD that is under way has a
   reservation and nothing else yet.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from firewall.owner import Owner
from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.networks import NetworkList
from harness.libcni.repair import namespace_of
from harness.runtime.namespace_state import LiveNamespace, live_namespaces
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST
from harness.runtime.pod_record import PodNetwork
from harness.runtime.reservations import read_reservations, reservation_folders
from harness.runtime.sandbox import sandbox_exists
from harness.snapshot import take
from netlink.link import Link
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from skel.errors import CniError

Key: TypeAlias = tuple[str, str, str]
"""Network, container ID and interface name, which is empty if no trace has it."""

_RESULT: Final = "cached result"
_RESERVATION: Final = "reservation"
_FILES: Final = (_RESULT, _RESERVATION)
_OWN_TABLE: Final = " cni_harness"
_PLUGINS_VETH: Final = re.compile(r"veth[0-9a-f]{8,11}")
"""The names that bridge and ptp give to the host's end, of the reference and of this project."""


class AttachmentTrace(NamedTuple):
    """Something on the node that names its attachment; `stamp` changes with each change of it."""

    kind: str
    place: str
    stamp: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place}"


class Stray(NamedTuple):
    """Something that no attachment can be told of, so that only a person can remove it."""

    check: str
    subject: str
    what: str


@dataclass
class TracedAttachment:
    """An attachment with all its traces."""

    network: str
    container_id: str
    ifname: str
    is_ours: bool = False
    """Whether its container is on a record of this program."""
    pod: str = ""
    """`default/web` if the runtime told the plugins of it."""
    traces: list[AttachmentTrace] = field(default_factory=list)
    addresses: set[str] = field(default_factory=set)
    cached: CachedAttachment | None = None
    living: str = ""
    """The reason to count it as living; empty if nothing shows that it does."""

    @property
    def key(self) -> Key:
        """The attachment's name."""
        return self.network, self.container_id, self.ifname

    @property
    def title(self) -> str:
        """The pod's name, or the beginning of the container ID."""
        return self.pod or self.container_id[:12]

    @property
    def stamp(self) -> str:
        """A text that changes when a trace comes, goes or changes."""
        return " ".join(sorted(f"{trace.place}={trace.stamp}" for trace in self.traces))

    @property
    def can_be_deleted(self) -> bool:
        """Whether a DEL can name it: an alias or a comment may have a hash in the place of a long container ID."""
        return not self.container_id.startswith("~") and not self.network.startswith("~")

    def is_unchanged(self) -> bool:
        """Tell whether the files among the traces are as they were: a runtime may have added the container again."""
        files = (trace for trace in self.traces if trace.kind in _FILES)
        return all(_file_stamp(Path(trace.place)) == trace.stamp for trace in files)


class AttachmentSurvey(NamedTuple):
    """All attachments with traces on a node, and what is left by nobody that can be named."""

    attachments: Sequence[TracedAttachment]
    strays: Sequence[Stray]

    def suspects(self) -> list[TracedAttachment]:
        """Return the attachments that are leftovers by the first three conditions of the rule."""
        return [each for each in self.attachments if not each.is_ours and not each.living]

    def find(self, network: str, container_id: str) -> TracedAttachment | None:
        """Return an attachment of a container to a network."""
        return next((each for each in self.attachments if each.key[:2] == (network, container_id)), None)


def survey(node: Node, networks: Iterable[NetworkList] = ()) -> AttachmentSurvey:
    """Return the attachments that a node has traces of; it changes nothing.

    `networks` are the lists whose `dataDir` may be another than the usual one. Raises PodRecordError, NetlinkError,
    SnapshotError, OSError.
    """
    gathered = _Gathered()
    _note_results(node, gathered)
    _note_reservations(node, networks, gathered)
    with open_namespace(node.netns or THIS_HOST) as here, Rtnl(here) as rtnl:
        links = rtnl.links()
    live = live_namespaces(node)
    _note_links(links, live, gathered)
    _note_firewall(node, gathered)
    recorded = {pod.container_id for pod in node.pods.all()}
    attachments = gathered.merged()
    for each in attachments:
        each.is_ours = each.container_id in recorded
        each.living = each.living or _reason_to_live(each, live)
    living = {each.container_id for each in attachments if each.living}
    for each in attachments:
        if each.container_id in living:
            each.living = each.living or "another attachment of its container lives"
    return AttachmentSurvey(attachments, gathered.strays)


class _Gathered:
    """The traces that were found, by attachment."""

    def __init__(self) -> None:
        self.strays: list[Stray] = []
        self._known: dict[Key, TracedAttachment] = {}

    def at(self, key: Key) -> TracedAttachment:
        return self._known.setdefault(key, TracedAttachment(*key))

    def merged(self) -> list[TracedAttachment]:
        """Return the attachments; one that a shortened label names is that of the container it was made from."""
        whole = {Owner(*key): each for key, each in self._known.items() if not _is_shortened(key)}
        for key, each in self._known.items():
            original = whole.get(Owner(*key)) if _is_shortened(key) else None
            if original is None:
                whole[Owner(*key)] = each
            else:
                original.traces += each.traces
                original.addresses |= each.addresses
                original.living = original.living or each.living
        return sorted(whole.values(), key=lambda each: each.key)


def _note_results(node: Node, gathered: _Gathered) -> None:
    folder = node.var_lib_cni / "results"
    cache = ResultCache(node.var_lib_cni, warn=lambda _: None)
    for cached in cache.attachments():
        attachment = cached.attachment
        known = gathered.at((cached.network, attachment.container_id, attachment.ifname))
        known.cached = cached
        args = dict(attachment.cni_args)
        if name := args.get("K8S_POD_NAME"):
            known.pod = f"{args.get('K8S_POD_NAMESPACE', 'default')}/{name}"
        try:
            path = cache.path(*known.key)
        except CniError:  # another program's file: its name leads nowhere
            known.living = "its cached result has an invalid name"
            continue
        known.traces.append(AttachmentTrace(_RESULT, str(path), _file_stamp(path)))
        result = PodNetwork(name=cached.network, ifname=attachment.ifname, result=cached.result).decoded()
        known.addresses |= {str(ip.address.ip) for ip in result.ips}
        known.living = _living_namespace(cached)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not path.name.startswith(".") and path.is_file() and path.stat().st_size == 0:
            what = f"cached result {path} is empty: a runtime was killed while it wrote it"
            gathered.strays.append(Stray("empty-result", str(path), what))


def _living_namespace(cached: CachedAttachment) -> str:
    netns = namespace_of(cached)
    try:
        return f"its network namespace {netns} exists" if netns and sandbox_exists(netns) else ""
    except OSError as error:
        return f"its network namespace {netns} cannot be examined: {error.strerror}"


def _note_reservations(node: Node, networks: Iterable[NetworkList], gathered: _Gathered) -> None:
    for network, folder in reservation_folders(node, networks):
        for each in read_reservations(folder):
            path = folder / str(each.address)
            if each.container_id:
                known = gathered.at((network, each.container_id, each.ifname))
                known.traces.append(AttachmentTrace(_RESERVATION, str(path), _file_stamp(path)))
                known.addresses.add(str(each.address))
            elif each.note == "empty file":
                what = f"reservation {path} is empty: a plugin was killed, and the address stays reserved"
                gathered.strays.append(Stray("empty-reservation", str(path), what))


def _note_links(links: Sequence[Link], live: Sequence[LiveNamespace], gathered: _Gathered) -> None:
    indices = {link.ifindex for link in links}
    names: dict[int | None, str] = {each.number: each.name for each in live if each.number is not None}
    for link in links:
        place = names.get(link.peer_netnsid, "")
        owner = Owner.from_label(link.alias) if link.alias else None
        if owner is not None:
            known = gathered.at((owner.network, owner.container_id, owner.ifname))
            known.traces.append(AttachmentTrace("interface", link.name, f"{link.ifindex} {link.mac}"))
            if place:
                known.living = known.living or f"{link.name} leads to network namespace {place}"
        elif link.kind == "veth" and _PLUGINS_VETH.fullmatch(link.name) and not place:
            on_node = link.peer_netnsid is None and link.peer_ifindex in indices
            where = "is on the node, too" if on_node else "is in a network namespace of no name and no process"
            gathered.strays.append(Stray("orphan-veth", link.name, f"the other end of {link.name} {where}"))


def owned_elements(node: Node) -> Iterator[tuple[Owner, str]]:
    """Yield each element of our nftables tables with its owner, in the words of nft(8). Raises SnapshotError."""
    elements = take({NODE: node.netns or THIS_HOST}).section(NODE, "nft elements")
    for words, described in elements.items():
        label = str(described.get("comment", "")).partition(" ")[0] if isinstance(described, dict) else ""
        owner = Owner.from_label(label) if _OWN_TABLE in words and label else None
        if owner is not None and all(owner):
            yield owner, words


def _note_firewall(node: Node, gathered: _Gathered) -> None:
    for owner, words in owned_elements(node):
        known = gathered.at((owner.network, owner.container_id, owner.ifname))
        known.traces.append(AttachmentTrace("nftables element", words, ""))
        known.addresses |= set(_addresses_in(words))


def _addresses_in(words: str) -> Iterator[str]:
    for word in words.split():
        try:
            yield str(ip_address(word))
        except ValueError:
            continue


def _reason_to_live(known: TracedAttachment, live: Iterable[LiveNamespace]) -> str:
    for namespace in live:
        if found := sorted(known.addresses & namespace.addresses):
            return f"network namespace {namespace.name} has {found[0]}"
    return ""


def _is_shortened(key: Key) -> bool:
    return any(part.startswith("~") for part in key)


def _file_stamp(path: Path) -> str:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "gone"
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
