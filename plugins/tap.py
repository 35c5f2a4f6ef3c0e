"""tap: a program of the pod, such as a virtual machine, reads and writes the frames of the pod's interface."""

import os

from fast_stdlib.typing import TYPE_CHECKING, Mapping
from plugins.attach.driver import Adding, Attached
from plugins.attach.interface_config import InterfaceConfig
from plugins.attach.made_in_pod import MadeInPod
from plugins.attach.sequence import interface_plugin
from skel import CniError, Code, boolean, field, integer_between, interface_name, mac, optional, string

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.namespace import Namespace
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl

_NOBODY = 0xFFFFFFFF
"""The kernel's number for no user and no group, which is no ID."""
_id = integer_between(0, _NOBODY - 1, "an ID")

_LABEL_OF_NEXT_PROGRAM = "/proc/thread-self/attr/exec"
_FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"
_TAKEN = "File exists", "Device or resource busy"


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

    def make(self, at: Adding) -> int:
        """Make the tap, with the label of `selinuxContext`, and put it on the pod's bridge."""
        from netlink.link_wire import change_link
        from netlink.request import change
        from netlink.rtnl import Rtnl

        config, ifname = self.config, self.args.ifname
        with Rtnl(at.netns) as pod:
            master = self._bridge(pod).ifindex if config.bridge else 0
            ifindex = self.make_in_pod(at, pod, lambda name, look: self._create(at, pod, name, look))
            settings = change_link(ifindex, mtu=config.mtu, mac=at.mac, master=master)
            pod.send(change(settings, f'set MTU, MAC and bridge of "{ifname}"'))
        return ifindex

    def verify(self, at: Attached) -> None:
        """Compare the tap with the configuration: its users, its queues and its bridge."""
        config, details = self.config, at.inner.details
        name = at.inner.name
        if not details.is_tap:
            raise CniError(Code.INTERNAL, f'interface "{name}" in the container is a tun, and no tap')
        wanted = {"owner": config.owner, "group": config.group, "multiQueue": config.multi_queue}
        found = {"owner": details.owner, "group": details.group, "multiQueue": details.multi_queue}
        for key, value in wanted.items():
            if found[key] != value:
                message = f'{key} of "{name}" is {_said(found[key])}, the configuration says {_said(value)}'
                raise CniError(Code.INTERNAL, message)
        if config.bridge and at.inner.master != self._bridge(at.pod).ifindex:
            raise CniError(Code.INTERNAL, f'"{name}" is no port of the bridge "{config.bridge}"')

    def _create(self, at: Adding, pod: "Rtnl", name: str, look: "RtnlRequest[Link | None]") -> bool:
        """Make the tap and look it up; False if a link of its name exists."""
        from fast_stdlib.functools import partial
        from netlink.tap import create_tap

        config = self.config
        create = create_tap
        if config.selinux_context:
            create = partial(_create_labelled_tap, context=config.selinux_context, environ=self.args.environ)
        made = create(name, at.netns, multi_queue=config.multi_queue, owner=config.owner, group=config.group)
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


def _create_labelled_tap(
    name: str,
    namespace: "Namespace",
    context: str,
    environ: Mapping[str, str],
    *,
    multi_queue: bool = False,
    owner: int | None = None,
    group: int | None = None,
) -> bool:
    """Make a tap, as netlink.tap.create_tap does, by a process with the SELinux label `context`.

    The kernel gives a tap the label of the process that makes it. The label for new sockets (/proc/PID/attr/sockcreate)
    does not count for taps: see selinux_tun_dev_create in security/selinux/hooks.c. A process gets a label when it
    starts, so this one tap is made by ip(8), as the reference plugin does. The policy must allow the label to run it.

    `environ` is the call's: its PATH has ip(8), or one of the usual folders has.
    Raises CniError: 7 without SELinux or for a label that the policy does not know, 999 if ip(8) fails; and OSError.
    """
    import subprocess

    from netlink.namespace import entered

    command = ["ip", "tuntap", "add", "mode", "tap", "name", name]
    command += ["user", str(owner)] if owner is not None else []
    command += ["group", str(group)] if group is not None else []
    command += ["multi_queue"] if multi_queue else []
    _label_next_program(context)
    try:
        with entered(namespace):
            ran = subprocess.run(  # noqa: S603 - a fixed name, and arguments made above
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": f"{environ.get('PATH', '')}:{_FOLDERS}"},
            )
    except FileNotFoundError:
        raise CniError(Code.INTERNAL, 'selinuxContext: the program "ip" is missing, which makes the tap') from None
    finally:
        _label_next_program("")
    if ran.returncode == 0:
        return True
    if any(reason in ran.stderr for reason in _TAKEN):
        return False
    message = f'selinuxContext: "ip tuntap" with the label "{context}" ended with {ran.returncode}'
    raise CniError(Code.INTERNAL, message, " ".join(ran.stderr.split()))


def _label_next_program(context: str) -> None:
    """Set the label of the programs that this thread starts; with "" as the policy says."""
    try:
        fd = os.open(_LABEL_OF_NEXT_PROGRAM, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, context.encode() or b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        message = f'selinuxContext: SELinux does not take the label "{context}": {error.strerror}'
        raise CniError(Code.INVALID_CONFIG, message, "the kernel runs without SELinux, or its policy differs") from None


PLUGIN = interface_plugin("tap", TapConfig, TapDriver)
