"""vlan: the pod's interface carries one VLAN (802.1Q) of an interface of the host, its master."""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.driver import Attached
from plugins.attach.on_master import MasterConfig, OnMaster
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code, field, integer_between

if TYPE_CHECKING:
    from netlink.link import Link


class VlanConfig(MasterConfig):
    """Keys of the reference plugin, with its defaults."""

    vlan_id: int = field(integer_between(0, 4094, "a VLAN ID"), default=0)

    def check_for_add(self) -> None:
        """Raise CniError (7) without a master."""
        if not self.master:
            raise CniError(Code.INVALID_CONFIG, "master: required key is missing")


class VlanDriver(OnMaster[VlanConfig]):
    """A VLAN interface, which is made in the pod."""

    kind = "vlan"

    def settings(self) -> bytes:
        """Return the VLAN ID."""
        from netlink.kinds import vlan

        return vlan(vlan_id=self.config.vlan_id)

    def link_mac(self, mac: str) -> str:
        """Return the requested MAC; else "", and the kernel gives it the master's."""
        del mac
        return self.config.requested_mac(self.args.cni_args)

    def refusal(self, master: "Link") -> CniError:
        """Return the error for a VLAN that has an interface on `master` already."""
        message = f'vlanId: "{master.name}" has an interface for VLAN {self.config.vlan_id} already'
        return CniError(Code.INTERNAL, f"{message}, perhaps another pod's")

    def verify(self, at: Attached) -> None:
        """Compare VLAN ID and MTU with the configuration; the master must exist."""
        super().verify(at)
        config, inner = self.config, at.inner
        for key, wanted, found in (("vlanId", config.vlan_id, inner.details.vlan_id), ("mtu", config.mtu, inner.mtu)):
            if wanted != found and not (key == "mtu" and wanted == 0):
                message = f'{key} of "{inner.name}" is {found}, the configuration says {wanted}'
                raise CniError(Code.INTERNAL, message)


PLUGIN = interface_plugin("vlan", VlanConfig, VlanDriver)
