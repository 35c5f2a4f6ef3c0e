"""The state of a node that `diagnose` examines, read once, and the type of its findings."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.runtime.namespace_state import NamespaceState
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, namespaces_of
from harness.snapshot import Snapshot, take
from harness.snapshot.sysctls import baseline
from harness.views.attachments import KnownAttachment, known_attachments, plugins_of
from harness.views.namespaces import NamespaceView, read_namespaces
from harness.views.nft_ruleset import Rules, read_rules
from harness.views.tunnels import Tunnel, is_agents, read_tunnel
from netlink.link import Link
from netlink.namespace import entered, open_namespace
from netlink.rtnl import Rtnl
from skel.decoders import Cidr


class Fault(NamedTuple):
    """A fault, its cause, and the command or the change that ends it."""

    check: str
    """The name of the check: `gateway-missing`."""
    subject: str
    """The thing at fault: a link, an address, a file."""
    pods: tuple[str, ...]
    """The pods that suffer, as `default/pod1` or container IDs; empty for a fault of the whole node."""
    what: str
    cause: str
    remedy: str


class Commands(NamedTuple):
    """Commands for a shell on this machine that act on the examined node, and not on the host around it."""

    node: str | None
    """The node's name, None for this host."""
    program: str
    """`cni-harness` with the options that choose the node."""

    def ip(self, words: str) -> str:
        """Return a command of iproute2: `ip link del x0`, or `ip -n trial link del x0`."""
        return f"ip {words}" if self.node is None else f"ip -n {self.node} {words}"

    def run(self, words: str) -> str:
        """Return the command that runs another one in the node's network namespace."""
        return words if self.node is None else f"ip netns exec {self.node} {words}"


class Ends(NamedTuple):
    """The two ends of an attachment's veth or macvlan: in the pod, and on the node; None if missing."""

    inside: Link | None
    outside: Link | None
    bridge: Link | None
    """The bridge that `outside` is a port of."""


class NodeState(NamedTuple):
    """All that was read of a node."""

    known: Sequence[KnownAttachment]
    views: Mapping[str, NamespaceView]
    snapshot: Snapshot
    ruleset: Rules | None
    """None if nft is not installed, or the kernel has no nftables."""
    tunnels: Sequence[Tunnel]
    """The tunnels to other nodes that this project's agent makes, or another one alike."""
    commands: Commands
    """The remedies' commands."""

    @property
    def here(self) -> NamespaceState:
        """The node's own namespace."""
        return self.views[NODE].state

    @property
    def living(self) -> list[KnownAttachment]:
        """The attachments that have a result and a namespace."""
        return [each for each in self.known if each.network.result is not None and self.view_of(each) is not None]

    def view_of(self, attachment: KnownAttachment) -> NamespaceView | None:
        """Return the namespace of an attachment, None if it is gone."""
        return next((view for view in self.views.values() if attachment in view.attachments), None)

    def ends(self, attachment: KnownAttachment) -> Ends:
        """Return the links of an attachment's interface."""
        view = self.view_of(attachment)
        inside = view.state.link(attachment.network.ifname) if view else None
        peer = view.peers.get(attachment.network.ifname) if view else None
        outside = self.here.link(peer.name) if peer is not None and peer.place == NODE and inside else None
        bridge = next((link for link in self.here.links if outside and link.ifindex == outside.master), None)
        return Ends(inside, outside, bridge)

    def sysctl(self, key: str) -> str:
        """Return a parameter of the node, such as `net.ipv4.ip_forward`; an empty string if it has none."""
        return str(self.snapshot.section(NODE, "sysctls").get(key, ""))

    def link_sysctl(self, link: str, name: str) -> str:
        """Return a parameter of a link of the node; `name` is as "ipv4.conf.rp_filter"."""
        own = self.snapshot.section(NODE, "link sysctls").get(link)
        value = own.get(name) if isinstance(own, dict) else None
        return str(value if value is not None else baseline(name, self.snapshot.section(NODE, "sysctls")) or "")

    def link_with(self, address: str) -> Link | None:
        """Return the node's link that has an address, without its prefix length."""
        for link in self.here.links:
            if any(str(each.ip) == address for each in self.here.addresses.get(link.ifindex, [])):
                return link
        return None


def read_node_state(node: Node, *, cache_dirs: Sequence[Path] = (), warn: Callable[[str], object]) -> NodeState:
    """Read an existing node. `warn` gets a line for each unreadable source. Raises SnapshotError, OSError."""
    known = known_attachments(node, cache_dirs=cache_dirs, warn=warn)
    views = read_namespaces(node, known)
    namespaces = namespaces_of(node, [])
    snapshot = take(namespaces)
    for line in snapshot.missing:
        warn(f"not checked: {line}")
    with open_namespace(namespaces[NODE]) as here, entered(here):
        ruleset = read_rules()
        with Rtnl() as rtnl:
            links = views[NODE].state.links
            tunnels = [each for link in links if is_agents(link) and (each := read_tunnel(rtnl, link)) is not None]
    return NodeState(known, views, snapshot, ruleset, tunnels, Commands(node.name, node.program()))


def bridge_plugin(attachment: KnownAttachment) -> Mapping[str, Any] | None:
    """Return the configuration of the plugin bridge in an attachment's list, with keys in small letters."""
    return next((each for each in plugins_of(attachment.network) if each.get("type") == "bridge"), None)


def pod_addresses(attachment: KnownAttachment) -> list[Cidr]:
    """Return the addresses in an attachment's result."""
    return [ip.address for ip in attachment.network.decoded().ips]
