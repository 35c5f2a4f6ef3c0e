"""tuning: changes kernel parameters and the interface of a pod that an earlier plugin of the list has made.

ADD saves the values before, and DEL restores them. Nothing changes on the host.
"""

from fast_stdlib.typing import TYPE_CHECKING, Mapping, NamedTuple
from plugins.attach.attachment import nothing, open_pod, open_pod_if_left, required_result, valid_owners
from plugins.attach.interface_config import mac_of_cni_args, mtu
from skel import (
    UNKNOWN,
    Args,
    CniError,
    Code,
    Config,
    Plugin,
    Record,
    Result,
    Undo,
    boolean,
    dict_of,
    field,
    integer_between,
    mac,
    optional,
    record,
    string,
)
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netlink.link import Link
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl

_packets = integer_between(0, 2**32 - 1, "a number of packets")

__all__ = ["PLUGIN", "TuningConfig"]


class WantedValues(NamedTuple):
    """The values that a pod gets."""

    sysctl: dict[str, str]
    """By their names in the configuration."""
    mac: str
    """Empty leaves it as it is."""
    promisc: bool
    mtu: int
    """Bytes; 0 leaves it as it is."""
    allmulti: bool | None
    """None leaves it as it is, as in `tx_queue_len`."""
    tx_queue_len: int | None
    """Packets."""

    @property
    def is_about_link(self) -> bool:
        """Whether any value is one of the pod's interface."""
        return bool(self.mac or self.promisc or self.mtu) or (self.allmulti, self.tx_queue_len) != (None, None)


class _CniArgs(Record):
    sysctl: dict[str, str] | None = field(dict_of(string), default=None)
    mac: str | None = field(string, default=None)
    promisc: bool | None = field(boolean, default=None)
    mtu: int | None = field(mtu, default=None)
    allmulti: bool | None = field(boolean, default=None)
    tx_queue_len: int | None = field(_packets, "txQLen", default=None)


class _Args(Record):
    cni: _CniArgs = field(record(_CniArgs), default=_CniArgs)


class _RuntimeConfig(Record):
    mac: str = field(string, default="")


class TuningConfig(Config):
    """Keys of the reference plugin, with its defaults."""

    data_dir: str = field(string, default="", unreadable=UNKNOWN)
    sysctl: dict[str, str] = field(dict_of(string), default=dict)
    mac: str | None = field(optional(mac), default=None)
    promisc: bool = field(boolean, default=False)
    mtu: int = field(mtu, default=0)
    allmulti: bool | None = field(boolean, default=None)
    tx_queue_len: int | None = field(_packets, "txQLen", default=None)
    args: _Args = field(record(_Args), default=_Args)
    runtime_config: _RuntimeConfig = field(record(_RuntimeConfig), default=_RuntimeConfig)

    def wanted(self, cni_args: Mapping[str, str]) -> WantedValues:
        """Return the pod's values: those of `args.cni` count first.

        A MAC is then the capability's (`runtimeConfig.mac`), then MAC of CNI_ARGS, then the key `mac`, as with the
        reference. Raises CniError for an invalid MAC: 4 if it is in CNI_ARGS, else 7.
        """
        asked = self.args.cni
        return WantedValues(
            sysctl=self.sysctl | (asked.sysctl or {}),
            mac=self._mac(cni_args),
            promisc=self.promisc if asked.promisc is None else asked.promisc,
            mtu=self.mtu if asked.mtu is None else asked.mtu,
            allmulti=self.allmulti if asked.allmulti is None else asked.allmulti,
            tx_queue_len=self.tx_queue_len if asked.tx_queue_len is None else asked.tx_queue_len,
        )

    def _mac(self, cni_args: Mapping[str, str]) -> str:
        asked = self.args.cni.mac
        if asked is not None:
            return mac(asked, "args.cni.mac") if asked else ""
        if self.runtime_config.mac:
            return mac(self.runtime_config.mac, "runtimeConfig.mac")
        return mac_of_cni_args(cni_args) or self.mac or ""


def _add(args: Args[TuningConfig]) -> Result:
    """Change the pod; return prevResult with the MAC and the MTU that it has now. A failure leaves nothing."""
    from netlink.namespace import entered
    from netlink.rtnl import Rtnl
    from plugins.tuning.saved import SavedFile, SavedValues, decoded, encoded
    from plugins.tuning.sysctls import check_allowed, parameters

    result, wanted = required_result(args), args.config.wanted(args.cni_args)
    check_allowed(wanted.sysctl)
    file = SavedFile(args.config.data_dir, args.container_id, args.ifname)
    with open_pod(args) as netns, Rtnl(netns) as pod, Undo(args.log, args.interruption) as undo:
        link = _interface(args, pod) if wanted.is_about_link else None
        with entered(netns):
            found = parameters(wanted.sysctl, args.ifname)
        saved = SavedValues.of(args.config.name, wanted, link, found)
        if not saved.is_empty():
            before = file.read()
            # The list has this plugin twice, or an ADD was killed: the oldest values are the pod's own.
            oldest = decoded(before, args.log) if before else SavedValues()
            undo.add(file.write, before) if before else undo.add(file.remove)
            file.write(encoded(saved.under(oldest)))
            undo.add(saved.put_back, pod, netns, args.ifname, args.log)
        with entered(netns):
            for each in found:
                if each.previous is None or not each.is_as_wanted:
                    each.write()
        if link is not None:
            for requests in _changes(link, wanted):
                pod.send(*requests)
            _tell(args, result, _interface(args, pod))
    return result


def _delete(args: Args[TuningConfig]) -> None:
    """Restore the values, if the pod still exists, and forget them."""
    from plugins.tuning.saved import SavedFile

    file = SavedFile(args.config.data_dir, args.container_id, args.ifname)
    content = file.read()
    if content is None:
        return
    _put_back(args, content)
    file.remove()


def _put_back(args: Args[TuningConfig], content: bytes) -> None:
    netns = open_pod_if_left(args)
    if netns is None:
        return
    from netlink.rtnl import Rtnl
    from plugins.tuning.saved import decoded

    with netns, Rtnl(netns) as pod:
        decoded(content, args.log).put_back(pod, netns, args.ifname, args.log)


def _check(args: Args[TuningConfig]) -> None:
    """Raise CniError (999) for a value that is not as configured."""
    from netlink.namespace import entered
    from netlink.rtnl import Rtnl
    from plugins.tuning.sysctls import parameters

    required_result(args)
    wanted = args.config.wanted(args.cni_args)
    with open_pod(args) as netns, Rtnl(netns) as pod:
        with entered(netns):
            found = parameters(wanted.sysctl, args.ifname)
        link = _interface(args, pod) if wanted.is_about_link else None
    for each in found:
        if not each.is_as_wanted:
            raise _differs(f"sysctl.{each.key}", each.previous, each.value)
    if link is not None:
        _check_link(args, link, wanted)


def _check_link(args: Args[TuningConfig], link: "Link", wanted: WantedValues) -> None:
    for key, present, configured in (
        ("mac", link.mac, wanted.mac or None),
        ("promisc", link.promiscuous, wanted.promisc or None),
        ("mtu", link.mtu, wanted.mtu or None),
        ("allmulti", link.allmulticast, wanted.allmulti),
        ("txQLen", link.tx_queue_len, wanted.tx_queue_len),
    ):
        if configured is not None and present != configured:
            raise _differs(f'{key} of "{args.ifname}"', present, configured)


def _gc(args: Args[TuningConfig]) -> None:
    """Forget the values of attachments that are no longer valid."""
    valid = valid_owners(args)
    if valid is not None:
        from plugins.tuning.saved import collect

        collect(args.config.data_dir, args.config.name, {(each.container_id, each.ifname) for each in valid}, args.log)


def _interface(args: Args[TuningConfig], pod: "Rtnl") -> "Link":
    link = pod.link(args.ifname)
    if link is None:
        raise CniError(Code.INTERNAL, f'interface "{args.ifname}" is missing in the container')
    return link


def _changes(link: "Link", wanted: WantedValues) -> "Iterator[list[RtnlRequest[bool]]]":
    """Yield changes of the pod's interface. The MTU comes last: one below 1280 takes the IPv6 addresses away."""
    from netlink.link_wire import change_link
    from netlink.request import change

    ifindex, name = link.ifindex, link.name
    first = []
    if wanted.mac:
        first.append(change(change_link(ifindex, mac=wanted.mac), f'mac: set {wanted.mac} on "{name}"'))
    if wanted.promisc:
        first.append(change(change_link(ifindex, promiscuous=True), f'promisc: set true on "{name}"'))
    if wanted.allmulti is not None:
        request = change_link(ifindex, allmulticast=wanted.allmulti)
        first.append(change(request, f'allmulti: set {str(wanted.allmulti).lower()} on "{name}"'))
    if wanted.tx_queue_len is not None:
        request = change_link(ifindex, tx_queue_len=wanted.tx_queue_len)
        first.append(change(request, f'txQLen: set {wanted.tx_queue_len} on "{name}"'))
    yield first
    if wanted.mtu:
        yield [change(change_link(ifindex, mtu=wanted.mtu), f'mtu: set {wanted.mtu} on "{name}"')]


def _tell(args: Args[TuningConfig], result: Result, link: "Link") -> None:
    """Give the pod's interface in the result its MAC and MTU."""
    for interface in result.interfaces:
        if interface.name == args.ifname and interface.sandbox:
            interface.mac = link.mac
            interface.mtu = link.mtu if interface.mtu else 0


def _differs(what: str, present: object, configured: object) -> CniError:
    shown = [str(each).lower() if isinstance(each, bool) else each for each in (present, configured)]
    return CniError(Code.INTERNAL, f"{what} is {shown[0]}, the configuration says {shown[1]}")


PLUGIN = Plugin(
    "tuning",
    config=TuningConfig,
    add=_add,
    delete=_delete,
    check=_check,
    gc=_gc,
    repair=nothing,
    env_args=("MAC", "IP"),
    version=REFERENCE_RELEASE,
)
