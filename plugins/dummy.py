"""dummy: the pod has addresses on an interface that leads nowhere; packets to other machines on it are dropped."""

from plugins.attach.driver import Adding
from plugins.attach.interface_config import InterfaceConfig
from plugins.attach.made_in_pod import MadeInPod
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code


class DummyConfig(InterfaceConfig):
    """Keys of the specification, and the MTU and MAC of every interface plugin."""

    def check_for_add(self) -> None:
        """Raise CniError (7) without an IPAM plugin: an interface without addresses is of no use."""
        if not self.ipam.type:
            raise CniError(Code.INVALID_CONFIG, "ipam.type: required key is missing")


class DummyDriver(MadeInPod[DummyConfig]):
    """A dummy in the pod."""

    kind = "dummy"

    def make(self, at: Adding) -> int:
        """Make the dummy."""
        from netlink.rtnl import Rtnl

        mtu = self.config.mtu
        with Rtnl(at.netns) as pod:
            return self.make_in_pod(
                at, pod, lambda name, look: pod.create_link("dummy", name, mtu=mtu, mac=at.mac, looks=[look])
            )


PLUGIN = interface_plugin("dummy", DummyConfig, DummyDriver)
