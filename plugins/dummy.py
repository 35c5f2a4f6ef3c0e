"""dummy: the pod has addresses on an interface that leads nowhere; packets to other machines on it are dropped."""

from plugins.attach.driver import Made
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

    def make(self) -> Made:
        """Make the dummy."""
        from netlink.rtnl import Rtnl

        with Rtnl(self.netns) as pod:
            made = self.make_in_pod(
                pod, lambda name, look: pod.create_link("dummy", name, mtu=self.config.mtu, mac=self.mac, looks=[look])
            )
        return Made([], made.ifindex)


PLUGIN = interface_plugin("dummy", DummyConfig, DummyDriver)
