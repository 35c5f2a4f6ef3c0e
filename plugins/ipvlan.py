"""ipvlan: the pod's interface shares the MAC of an interface of the host, its master, and has addresses of its own.

In a list, after a plugin that has made one interface, the plugin needs neither `master` nor `ipam`: it takes that
interface, and the addresses and routes of its result.
"""

from fast_stdlib.typing import TYPE_CHECKING, Mapping
from plugins.attach.driver import Attached
from plugins.attach.on_master import MasterConfig, OnMaster
from plugins.attach.sequence import interface_plugin
from skel import Args, CniError, Code, Result, choice, field, optional

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.rtnl import Rtnl

_DEFAULT_MODE = "l2"


class IpvlanConfig(MasterConfig):
    """Keys of the reference plugin, with its defaults."""

    mode: str | None = field(optional(choice("l2", "l3", "l3s")), default=None)

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return "": the kernel gives an ipvlan its master's MAC, and the reference reads no other, valid or not."""
        del cni_args
        return ""


class IpvlanDriver(OnMaster[IpvlanConfig]):
    """An ipvlan, which is born in the pod."""

    kind = "ipvlan"

    def __init__(self, args: Args[IpvlanConfig]) -> None:
        super().__init__(args)
        self.mode = self.config.mode or _DEFAULT_MODE

    def settings(self) -> bytes:
        """Return the mode."""
        from netlink.kinds import ipvlan

        return ipvlan(mode=self.mode)

    def link_mac(self, mac: str) -> str:
        """Return "": the kernel gives it the master's."""
        del mac
        return ""

    def without_ipam(self, result: Result) -> None:
        """Take the addresses and routes of the plugin before this one, as the pod's interface's."""
        earlier = self.args.prev_result
        if earlier is not None and earlier.ips:
            result.ips, result.routes, result.dns = earlier.ips, earlier.routes, earlier.dns
            for ip in result.ips:
                ip.interface = len(result.interfaces)  # the pod's, which comes next

    def announce(self, pod: "Rtnl", inner: "Link") -> None:
        """Do nothing: the kernel has announced the addresses, and takes no MAC for an ipvlan."""

    def verify(self, at: Attached) -> None:
        """Compare the mode with the configuration; a master that it names must exist."""
        if self.config.master:
            super().verify(at)
        mode = at.inner.details.ipvlan_mode
        if mode != self.mode:
            message = f'mode of "{at.inner.name}" is "{mode}", the configuration says "{self.mode}"'
            raise CniError(Code.INTERNAL, message)

    def status(self) -> None:
        """Raise CniError (50) if the master is missing. That of a plugin before this one is unknown here.

        Without `master` and `ipam`, the plugin before this one makes the master and gives the addresses.
        """
        if self.config.master or self.config.ipam.type:
            super().status()

    def master(self, rtnl: "Rtnl") -> "Link":
        """Return the master: without the key, the only interface of an ADD's prevResult. Raises CniError (7)."""
        earlier = self.args.prev_result if self.args.verb == "ADD" else None
        if not self.config.master and earlier is not None:
            if len(earlier.interfaces) != 1 or not earlier.interfaces[0].name:
                names = ", ".join(f'"{interface.name}"' for interface in earlier.interfaces) or "none"
                message = f"master: it is not set, and prevResult.interfaces must have one interface, got {names}"
                raise CniError(Code.INVALID_CONFIG, message)
            return self.usable(rtnl, earlier.interfaces[0].name)
        return super().master(rtnl)


PLUGIN = interface_plugin("ipvlan", IpvlanConfig, IpvlanDriver)
