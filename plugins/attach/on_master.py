"""A pod's interface on top of another one, its master: the part that macvlan, ipvlan and vlan share.

The master is on the host, or in the pod with `linkInContainer`. A request in the pod's namespace makes the interface,
with the number that the pod's namespace has for the master's. Older kernels, such as 6.1, still register it beside its
master first, and refuse a name that is taken there. Then it is made under a name that only this attachment has, and
renamed in the pod; DEL deletes either name.
"""

from _socket import AF_INET, AF_INET6

from fast_stdlib.typing import TYPE_CHECKING, TypeVar
from plugins.attach.driver import Adding, Attached
from plugins.attach.interface_config import AutoMtuConfig
from plugins.attach.made_in_pod import MadeInPod
from skel import CniError, Code, boolean, field, interface_name, optional

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.path_mtu import PathMtu
    from netlink.rtnl import Rtnl
    from skel.steps import Steps

_RTN_UNICAST = 1


class MasterConfig(AutoMtuConfig):
    """The keys of every interface plugin with a master."""

    master: str | None = field(optional(interface_name), default=None)
    """None: the interface of the default route."""
    link_in_container: bool = field(boolean, default=False)


C = TypeVar("C", bound=MasterConfig)


class OnMaster(MadeInPod[C]):
    """A link on a master. A driver of its kind adds `kind`, `settings` and its part of `verify`."""

    kind: str
    # Neighbours on the master's network may have the addresses, and the reference waits for the detection, too.
    dad = True

    def settings(self) -> bytes:
        """Return the settings of the kind, by a function of `netlink.kinds`."""
        raise NotImplementedError

    def link_mac(self, mac: str) -> str:
        """Return the MAC to make the link with, "" for the kernel's choice; `mac` is requested, or random.

        Raises CniError (4, 7).
        """
        return mac

    def path_mtu(self, at: Adding | Attached) -> "PathMtu":
        """Return the master's MTU."""
        from netlink.path_mtu import link_mtu
        from netlink.rtnl import Rtnl

        with Rtnl(at.netns if self.config.link_in_container else None) as rtnl:
            master = self.master(rtnl)
        return link_mtu(master.mtu, master.name, self.config.mtu_overhead)

    def make(self, at: Adding) -> int:
        """Make the link on its master."""
        from netlink.namespace import current_namespace
        from netlink.rtnl import Rtnl

        with Rtnl(at.netns) as pod, current_namespace() as here:
            beside = None if self.config.link_in_container else here
            master = self.master(at.host if beside else pod)
            return self.make_in_pod(
                at,
                pod,
                lambda name, look: pod.create_link(
                    self.kind,
                    name,
                    data=self.settings(),
                    link=master.ifindex,
                    link_namespace=beside,
                    mtu=self.config.mtu,
                    mac=self.link_mac(at.mac),
                    looks=[look],
                ),
                passing_name=self.host_veth,
                refusal=self.refusal(master),
            )

    def refusal(self, master: "Link") -> CniError | None:
        """Return the error for a link that `master` has already; None: the pod has an interface of that name."""
        del master
        return None

    def unmake(self, steps: "Steps") -> None:
        """Delete the interface in the pod, even if ADD was killed before it had its name."""
        from plugins.attach.disconnect import disconnect

        steps.take(disconnect, self.args, self.kind, self.host_veth)

    def verify(self, at: Attached) -> None:
        """The master must exist."""
        self.master(at.pod if self.config.link_in_container else at.host)

    def status(self) -> None:
        """Raise CniError (50) if the master is missing. One in a pod is unknown here."""
        from netlink.rtnl import Rtnl

        if self.config.link_in_container:
            return
        with Rtnl() as host:
            try:
                self.master(host)
            except CniError as error:
                raise CniError(Code.NOT_AVAILABLE, error.msg) from None

    def master(self, rtnl: "Rtnl") -> "Link":
        """Return the master, which is in the namespace of `rtnl`. Raises CniError (7) as `usable` does."""
        return self.usable(rtnl, self.config.master or _by_default_route(rtnl))

    def usable(self, rtnl: "Rtnl", name_or_ifindex: str | int) -> "Link":
        """Return a link that can be the master. Raises CniError (7) if it is missing, or its MTU is too low."""
        master = rtnl.link(name_or_ifindex)
        if master is None:
            raise CniError(Code.INVALID_CONFIG, f'master: there is no interface "{name_or_ifindex}"')
        if self.config.mtu > master.mtu:
            message = f'mtu: expected at most {master.mtu}, the MTU of "{master.name}", got {self.config.mtu}'
            raise CniError(Code.INVALID_CONFIG, message)
        return master


def _by_default_route(rtnl: "Rtnl") -> int:
    """Return the ifindex of the preferred default route, IPv4 first. Raises CniError (7)."""
    for family in (AF_INET, AF_INET6):
        routes = [route for route in rtnl.routes(family) if not route.dst.prefixlen and route.kind == _RTN_UNICAST]
        if routes:
            return min(routes, key=lambda route: route.priority).ifindex
    raise CniError(Code.INVALID_CONFIG, "master: it is not set, and there is no default route to take it from")
