"""tap: a program of the pod, such as a virtual machine, reads and writes the frames of the pod's interface."""

from lean.typing import TYPE_CHECKING, Mapping
from plugins.attach.driver import Made
from plugins.attach.interface_config import InterfaceConfig
from plugins.attach.made_in_pod import MadeInPod
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code, boolean, field, integer_between, interface_name, mac, optional, string

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl

_NOBODY = 0xFFFFFFFF
"""The kernel's number for no user and no group, which is no ID."""
_id = integer_between(0, _NOBODY - 1, "an ID")


class TapConfig(InterfaceConfig):
    """Keys of the reference plugin, with its defaults."""

    multi_queue: bool = field(boolean, default=False)
    mac: str | None = field(optional(mac), default=None)
    owner: int | None = field(_id, default=None)
    group: int | None = field(_id, default=None)
    selinux_context: str = field(string, default="")
    bridge: str | None = field(optional(interface_name), default=None)
    """In the pod's network namespace."""

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return the MAC that the pod's interface must get, or ""; the key `mac` counts last."""
        return super().requested_mac(cni_args) or self.mac or ""


class TapDriver(MadeInPod[TapConfig]):
    """A persistent tap in the pod; the kernel's kind `tun` has taps and interfaces without Ethernet frames."""

    kind = "tun"

    def make(self) -> Made:
        """Make the tap, with the label of `selinuxContext`, and put it on the pod's bridge."""
        from netlink.link_wire import change_link
        from netlink.request import change
        from netlink.rtnl import Rtnl

        config, ifname = self.config, self.args.ifname
        with Rtnl(self.netns) as pod:
            master = self._bridge(pod).ifindex if config.bridge else 0
            made = self.make_in_pod(pod, lambda name, look: self._create(pod, name, look))
            settings = change_link(made.ifindex, mtu=config.mtu, mac=self.mac, master=master)
            pod.send(change(settings, f'set MTU, MAC and bridge of "{ifname}"'))
        return Made([], made.ifindex)

    def verify(self) -> None:
        """Compare the tap with the configuration: its users, its queues and its bridge."""
        config, details = self.config, self.inner.details
        name = self.inner.name
        if not details.is_tap:
            raise CniError(Code.INTERNAL, f'interface "{name}" in the container is a tun, and no tap')
        wanted = {"owner": config.owner, "group": config.group, "multiQueue": config.multi_queue}
        found = {"owner": details.owner, "group": details.group, "multiQueue": details.multi_queue}
        for key, value in wanted.items():
            if found[key] != value:
                message = f'{key} of "{name}" is {_said(found[key])}, the configuration says {_said(value)}'
                raise CniError(Code.INTERNAL, message)
        if config.bridge and self.inner.master != self._bridge(self.pod).ifindex:
            raise CniError(Code.INTERNAL, f'"{name}" is no port of the bridge "{config.bridge}"')

    def _create(self, pod: "Rtnl", name: str, look: "RtnlRequest[Link | None]") -> bool:
        """Make the tap and look it up; False if a link of its name exists."""
        from lean.functools import partial
        from netlink.tap import create_tap

        config = self.config
        create = create_tap
        if config.selinux_context:
            from plugins.attach.labelled_tap import create_labelled_tap

            create = partial(create_labelled_tap, context=config.selinux_context, environ=self.args.environ)
        made = create(name, self.netns, multi_queue=config.multi_queue, owner=config.owner, group=config.group)
        if made:
            pod.send(look)
        return made

    def _bridge(self, pod: "Rtnl") -> "Link":
        """Return the pod's bridge. Raises CniError (7) if it is missing."""
        found = pod.link(self.config.bridge or "")
        if found is None or found.kind != "bridge":
            message = f'bridge: there is no bridge "{self.config.bridge}" in the container'
            raise CniError(Code.INVALID_CONFIG, message)
        return found


def _said(value: object) -> str:
    return "not set" if value is None else str(value).lower()


PLUGIN = interface_plugin("tap", TapConfig, TapDriver)
