"""macvlan: the pod's interface has a MAC of its own on an interface of the host, its master."""

from fast_stdlib.typing import Mapping
from plugins.attach.driver import Attached
from plugins.attach.on_master import MasterConfig, OnMaster
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code, choice, field, integer_between, mac, optional

_DEFAULT_MODE = "bridge"


class MacvlanConfig(MasterConfig):
    """Keys of the reference plugin, with its defaults."""

    mode: str | None = field(optional(choice("bridge", "private", "vepa", "passthru")), default=None)
    mac: str | None = field(optional(mac), default=None)
    bc_queue_len: int = field(integer_between(0, 0xFFFFFFFF, "a number of packets"), "bcqueuelen", default=0)

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return the MAC that the pod's interface must get, or ""; the key `mac` counts last."""
        return super().requested_mac(cni_args) or self.mac or ""


class MacvlanDriver(OnMaster[MacvlanConfig]):
    """A macvlan, which is made in the pod."""

    kind = "macvlan"

    def settings(self) -> bytes:
        """Return the mode, and the length of the queue for broadcasts."""
        from netlink.kinds import macvlan

        return macvlan(mode=self.config.mode or _DEFAULT_MODE, bcqueuelen=self.config.bc_queue_len)

    def verify(self, at: Attached) -> None:
        """Compare the mode with the configuration; the master must exist."""
        super().verify(at)
        wanted = self.config.mode or _DEFAULT_MODE
        mode = at.inner.details.macvlan_mode
        if mode != wanted:
            message = f'mode of "{at.inner.name}" is "{mode}", the configuration says "{wanted}"'
            raise CniError(Code.INTERNAL, message)


PLUGIN = interface_plugin("macvlan", MacvlanConfig, MacvlanDriver)
