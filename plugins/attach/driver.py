"""The interface between the attach sequence and the plugin that makes one kind of interface.

A plugin is its configuration and a driver; the sequence (plugins.attach.sequence) does everything else:

    class Dummy(Driver[InterfaceConfig]):
        kind = "dummy"

        def make(self, at: Adding) -> int:
            ...  # make `self.args.ifname` in `at.netns`, its inverse on `at.undo` first
            return ifindex

    PLUGIN = interface_plugin("dummy", InterfaceConfig, Dummy)

A driver module imports `netlink` inside its methods or for type checkers alone: VERSION and DEL load it, too.
"""

from fast_stdlib.typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from plugins.attach.attachment import firewall_of, owner_of
from plugins.attach.interface_config import AutoMtuConfig, InterfaceConfig
from skel import Args, Cidr, Interface, Result, Undo

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from firewall.tables import Tables
    from netlink.link import Link
    from netlink.namespace import Namespace
    from netlink.path_mtu import PathMtu
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl
    from skel.steps import Steps

C = TypeVar("C", bound=InterfaceConfig)


class Adding(NamedTuple):
    """An attachment that ADD makes."""

    host: "Rtnl"
    """Links of the host."""
    netns: "Namespace"
    """The pod's network namespace."""
    undo: Undo
    """Takes a failing ADD's steps back. Register an inverse before its step."""
    mac: str
    """The MAC that the pod's interface must get: requested, or random."""
    result: Result
    """As far as it is known. Steps add to it."""


class Attached(NamedTuple):
    """An attachment that CHECK or REPAIR looks at."""

    host: "Rtnl"
    """Links of the host."""
    netns: "Namespace"
    """The pod's network namespace."""
    pod: "Rtnl"
    """Links of the pod."""
    inner: "Link"
    """The pod's interface."""
    result: Result
    """ADD's: the previous result."""


class Driver(Generic[C]):
    """One call of an interface plugin: the steps that differ between kinds of interface.

    The sequence makes one for each call, so a driver may keep links that a step has made. Steps that look at the kernel
    get the open sockets and the namespace as one value, `at`; steps that complete the result get the result. ADD calls
    `make`, `gateways`, `pod_routes`, `after_ipam`, `wait_reachable`, `announce`, in order. CHECK calls `verify`, DEL
    `unmake`, GC `stale`, STATUS `status` and REPAIR `repair`. Every step may raise CniError and OSError.
    """

    kind: str | None = "veth"
    """The kernel's name for the kind of the pod's interface: CHECK requires it, DEL deletes no other kind in a pod.

    None for an interface of any kind, which the driver's own `unmake` takes from the pod.
    """
    dad = False
    """Whether the pod's IPv6 addresses get duplicate address detection."""
    leaves_down = False
    """Whether ADD leaves the pod's interface down and without addresses."""

    def __init__(self, args: Args[C]) -> None:
        self.args = args
        self.config = args.config

    @property
    def owner(self) -> "Owner":
        """The attachment, as the firewall and the alias of a host veth name it. Raises CniError for an unread name."""
        return owner_of(self.args)

    @property
    def tables(self) -> "Tables":
        """The firewall of the host, for the functions of `firewall`."""
        return firewall_of(self.args)

    @property
    def has_link(self) -> bool:
        """Whether the kernel has an interface for the pod: a program of the pod may drive a device by itself."""
        return True

    @property
    def host_veth(self) -> str:
        """The name of the host's end, for a driver that makes a veth pair."""
        from plugins.attach.host_veth import host_veth_name

        return host_veth_name(self.args.container_id, self.args.ifname)

    def open_undo(self, host: "Rtnl") -> Undo:
        """Return a new Undo for `Adding.undo`; `host` has the links of the host."""
        del host
        return Undo(self.args.log, self.args.interruption)

    def path_mtu(self, at: Adding | Attached) -> "PathMtu | None":
        """Return the MTU that `mtu: "auto"` stands for, less `mtuOverhead`: of the host's default routes.

        None without a default route.
        """
        from netlink.path_mtu import path_mtu

        return path_mtu(at.host, self.config.mtu_overhead if isinstance(self.config, AutoMtuConfig) else 0)

    def make(self, at: Adding) -> int:
        """Make the pod's interface, down, named CNI_IFNAME, with `at.mac`, and its counterparts on the host.

        An interface of that name must not exist in the pod (SPEC.md section 2, ADD). Add the host's interfaces to the
        result, and return the ifindex of the pod's, which the sequence adds. It is 0 if the kernel has none: then
        nothing is configured, and the result has the interface's name and the addresses alone.
        """
        raise NotImplementedError

    def without_ipam(self, result: Result) -> None:
        """Add addresses and routes to the result in the place of an IPAM plugin.

        By default there are none: the network is layer 2 only.
        """

    def gateways(self, result: Result) -> list[Cidr]:
        """Complete the addresses and routes that IPAM gave to the result; called if there is an IPAM plugin.

        Return the gateway addresses that the host holds: packets of their families are forwarded. The pod's interface
        is configured next, with the result's addresses and routes.
        """
        del result
        return []

    def pod_routes(self, result: Result, ifindex: int) -> "list[RtnlRequest[bool]]":
        """Return the routes that the pod has instead of the kernel's, one to the network of each of its addresses.

        The routes of the result come after them, by way of gateways that these make reachable. `ifindex` is the pod's
        interface. If this returns none, the kernel adds its own.
        """
        del result, ifindex
        return []

    def after_ipam(self, at: Adding, gateways: list[Cidr]) -> None:
        """Configure the host. The pod's interface is up and has its addresses and routes.

        `gateways` are those that `gateways` returned; without an IPAM plugin there are none.
        """

    def wait_reachable(self, at: Adding, pod: "Rtnl") -> None:
        """Return when neighbours hear the pod: before it announces its addresses, and before a DAD probe.

        The DAD probe comes before `after_ipam`. `pod` has the links of the pod: a signal may end this wait at any
        point (skel.Interruption), so it enters no namespace.
        """

    def announce(self, pod: "Rtnl", inner: "Link") -> None:
        """Tell the neighbours the MAC of the pod's addresses: the last step of ADD."""
        from plugins.attach.pod_interface import announce

        announce(pod, inner)

    def unmake(self, steps: "Steps") -> None:
        """Delete the attachment's links and the driver's own firewall rules, each in `steps.take`.

        This deletes a veth pair by `host_veth_name`, any other kind in the pod. Missing links are no error.
        """
        from plugins.attach.disconnect import disconnect

        if self.kind is not None:
            steps.take(disconnect, self.args, self.kind)

    def verify(self, at: Attached) -> None:
        """Compare the host with the result. Raises CniError (999) for a difference.

        The sequence has checked the pod's interface: kind, state and MAC. It goes on with addresses, routes and
        masquerading.
        """

    def stale(self, valid: "Collection[Owner]", steps: "Steps") -> None:
        """Remove leftovers of attachments of this network that are not in `valid`, each in `steps.take`.

        The sequence removes their host veths, by alias, and their masquerading.
        """

    def repair(self, at: Attached, steps: "Steps") -> None:
        """Put back what other programs have removed of the attachment on the host, each part in `steps.take`.

        It changes nothing that is in order, and nothing in the pod. The sequence puts masquerading back. This does
        nothing, for a driver whose links are in the pod alone.
        """

    def status(self) -> None:
        """Raise CniError (50, 51) if no ADD could succeed now. The sequence asks the IPAM plugin."""


def interface_of(link: "Link", sandbox: str = "") -> Interface:
    """Return a link as a result lists it; `sandbox` is CNI_NETNS for the pod's interface."""
    return Interface(name=link.name, mac=link.mac, mtu=link.mtu, sandbox=sandbox)
