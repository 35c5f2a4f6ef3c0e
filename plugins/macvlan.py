"""macvlan: the pod's interface has a MAC of its own on an interface of the host, its master."""

from _socket import AF_INET, AF_INET6
from collections.abc import Mapping

from lean.typing import TYPE_CHECKING
from plugins.attach.driver import Driver, Made
from plugins.attach.keys import AutoMtuConfig
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code, boolean, choice, field, integer_between, interface_name, mac, optional

if TYPE_CHECKING:
    from netlink.path_mtu import PathMtu
    from netlink.rtnl import Link, Rtnl

__all__ = ["PLUGIN", "MacvlanConfig", "MacvlanDriver"]

_DEFAULT_MODE = "bridge"
_RTN_UNICAST = 1


class MacvlanConfig(AutoMtuConfig):
    """Keys of the reference plugin, with its defaults."""

    master: str | None = field(optional(interface_name), default=None)
    """None: the interface of the default route."""
    mode: str | None = field(optional(choice("bridge", "private", "vepa", "passthru")), default=None)
    mac: str | None = field(optional(mac), default=None)
    link_in_container: bool = field(boolean, default=False)
    bc_queue_len: int = field(integer_between(0, 0xFFFFFFFF, "a number of packets"), "bcqueuelen", default=0)

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return the MAC that the pod's interface must get, or ""; the key `mac` counts last."""
        return super().requested_mac(cni_args) or self.mac or ""


class MacvlanDriver(Driver[MacvlanConfig]):
    """A macvlan, which is born in the pod."""

    kind = "macvlan"
    # Neighbours on the master's network may have the addresses, and the reference waits for the detection, too.
    dad = True

    def path_mtu(self) -> "PathMtu":
        """Return the master's MTU."""
        from netlink.path_mtu import link_mtu
        from netlink.rtnl import Rtnl

        with Rtnl(self.netns if self.config.link_in_container else None) as rtnl:
            master = self._master(rtnl)
        return link_mtu(master.mtu, master.name, self.config.mtu_overhead)

    def make(self) -> Made:
        """Make the macvlan on its master."""
        from netlink.kinds import macvlan
        from netlink.link import find_link
        from netlink.namespace import current_namespace
        from netlink.rtnl import Rtnl

        config, ifname = self.config, self.args.ifname
        with Rtnl(self.netns) as pod, current_namespace() as here:
            master = self._master(pod if config.link_in_container else self.host)
            taken = CniError(Code.INTERNAL, f'cannot make "{ifname}" in {self.netns.path}: it exists already')
            if pod.link(ifname) is not None:
                raise taken
            back = self.undo.add(self._delete)
            found = find_link(ifname)
            # Asked for in the pod: asked for on the host, older kernels refuse a name that the host has as well.
            if not pod.create_link(
                "macvlan",
                ifname,
                data=macvlan(mode=config.mode or _DEFAULT_MODE, bcqueuelen=config.bc_queue_len),
                link=master.ifindex,
                link_namespace=None if config.link_in_container else here,
                mtu=config.mtu,
                mac=self.mac,
                looks=[found],
            ):
                self.undo.forget(back)
                raise taken
            made = found.answer
            if made is None:
                raise CniError(Code.INTERNAL, f'"{ifname}" in {self.netns.path} is gone')
            pod.set_alias(made.ifindex, self.owner.label())
        return Made([], made.ifindex)

    def verify(self) -> None:
        """Compare the mode with the configuration; the master must exist."""
        self._master(self.pod if self.config.link_in_container else self.host)
        wanted = self.config.mode or _DEFAULT_MODE
        mode = self.inner.details.macvlan_mode
        if mode != wanted:
            message = f'mode of "{self.inner.name}" is "{mode}", the configuration says "{wanted}"'
            raise CniError(Code.INTERNAL, message)

    def status(self) -> None:
        """Raise CniError (50) if the master is missing. One in a pod is unknown here."""
        from netlink.rtnl import Rtnl

        if self.config.link_in_container:
            return
        with Rtnl() as host:
            try:
                self._master(host)
            except CniError as error:
                raise CniError(Code.NOT_AVAILABLE, error.msg) from None

    def _master(self, rtnl: "Rtnl") -> "Link":
        """Return the master. Raises CniError (7) if it is missing, or its MTU is lower than the configuration's."""
        name = self.config.master
        master = rtnl.link(name or _by_default_route(rtnl))
        if master is None:
            raise CniError(Code.INVALID_CONFIG, f'master: there is no interface "{name}"')
        if self.config.mtu > master.mtu:
            message = f'mtu: expected at most {master.mtu}, the MTU of "{master.name}", got {self.config.mtu}'
            raise CniError(Code.INVALID_CONFIG, message)
        return master

    def _delete(self) -> None:
        from netlink.rtnl import Rtnl

        with Rtnl(self.netns) as pod:
            pod.delete_link(self.args.ifname)


def _by_default_route(rtnl: "Rtnl") -> int:
    """Return the ifindex of the preferred default route, IPv4 first. Raises CniError (7)."""
    for family in (AF_INET, AF_INET6):
        routes = [route for route in rtnl.routes(family) if not route.dst.prefixlen and route.kind == _RTN_UNICAST]
        if routes:
            return min(routes, key=lambda route: route.priority).ifindex
    raise CniError(Code.INVALID_CONFIG, "master: it is not set, and there is no default route to take it from")


PLUGIN = interface_plugin("macvlan", MacvlanConfig, MacvlanDriver)
