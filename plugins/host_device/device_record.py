"""The record of a device that is in a pod: how it was on the host.

It is in two places. An alternative name on the device, the mark, says to which attachment it is lent: it stays with
the device under any name, in any namespace. A file for each attachment has the parts that a device loses
when it moves: addresses, routes and state. The alias is the original name, as the reference plugin has it.
"""

import os

from fast_stdlib.contextlib import contextmanager, suppress
from fast_stdlib.hashing import sha256
from fast_stdlib.typing import TYPE_CHECKING
from skel import Cidr, CniError, Record, Route, boolean, cidr, field, integer, list_of, record, string
from skel.state_file import StateFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from firewall.owner import Owner
    from netlink.link import Link
    from netlink.rtnl import Rtnl
    from plugins.host_device.config import WantedDevice
    from skel import Interruption

_LOCKED = "/var/lib/cni"
_FOLDER = f"{_LOCKED}/host-device"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MARK = "cni-device-"
_UP = "-up"
_KERNEL, _REDIRECT, _ROUTER, _DHCP = 2, 1, 9, 16
_MADE_AGAIN = frozenset({_KERNEL, _REDIRECT, _ROUTER, _DHCP})
"""RTPROT_*: the kernel, routers and DHCP clients make these routes again when the device is up."""
_RTN_UNICAST = 1
_SCOPE_LINK = 253


class RecordedAddress(Record):
    """An address of the device."""

    address: Cidr = field(cidr)
    nodad: bool = field(boolean, default=False)
    """Without duplicate address detection."""
    broadcast: bool = field(boolean, default=False)


class DeviceRecord(Record):
    """A device as it was on the host; `mtu` in bytes."""

    boot: str = field(string, default="")
    """The kernel's boot ID: nothing is lent from one boot to the next."""
    key: str = field(string, default="")
    """The key of the configuration that named the device, with `value`."""
    value: str = field(string, default="")
    netns: str = field(string, default="")
    """The path of the pod's network namespace."""
    name: str = field(string)
    kind: str = field(string, default="")
    """"" for hardware; a device of another kind ends with the namespace that it is in."""
    mac: str = field(string, default="")
    alias: str = field(string, default="")
    mtu: int = field(integer, default=0)
    up: bool = field(boolean, default=False)
    promiscuous: bool = field(boolean, default=False)
    master: str = field(string, default="")
    """The name of the bridge that it is a port of."""
    addresses: list[RecordedAddress] = field(list_of(record(RecordedAddress)), default=list)
    """Permanent ones; DHCP clients and routers give the others again."""
    routes: list[Route] = field(list_of(record(Route)), default=list)

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the device has been lent since the machine started."""
        return self.boot == _boot_id()

    def names(self, wanted: "WantedDevice") -> bool:
        """Tell whether a configuration names this device."""
        same = {"device": self.name, "hwaddr": self.mac, self.key: self.value}
        return same.get(wanted.key) == wanted.value


def record_of(rtnl: "Rtnl", link: "Link", wanted: "WantedDevice | None" = None, netns: str = "") -> DeviceRecord:
    """Return the record of a device that is about to move, into the pod or out of it. Raises NetlinkError."""
    from plugins.attach.pod_interface import FAMILIES

    routes = [
        Route(
            dst=route.dst,
            gw=route.gateway,
            mtu=route.mtu,
            advmss=route.advmss,
            priority=route.priority,
            table=route.table,
            scope=route.scope,
        )
        for family in FAMILIES.values()
        for route in rtnl.routes(family, table=None, ifindex=link.ifindex)
        if route.kind == _RTN_UNICAST and route.protocol not in _MADE_AGAIN
    ]
    master = rtnl.link(link.master) if link.master else None
    return DeviceRecord(
        boot=_boot_id(),
        key=wanted.key if wanted else "",
        value=wanted.value if wanted else "",
        netns=netns,
        name=link.name,
        kind=link.kind,
        mac=link.mac,
        alias=link.alias,
        mtu=link.mtu,
        up=link.up,
        promiscuous=link.promiscuous,
        master=master.name if master else "",
        addresses=[
            RecordedAddress(address=each.interface, nodad=each.nodad, broadcast=each.broadcast)
            for each in rtnl.addresses(link.ifindex)
            if each.permanent and not (each.scope == _SCOPE_LINK and each.interface.version == 6)  # noqa: PLR2004 -- IPv6
        ],
        # Routes without a gateway come first: they make the gateways of the others reachable.
        routes=sorted(routes, key=lambda route: route.gw is not None),
    )


class DeviceRecords:
    """The records of one network's attachments, below /var/lib/cni/host-device."""

    def __init__(self, network: str, log: "Callable[[str], None]") -> None:
        self._files = StateFiles(f"{_FOLDER}/{network}")
        self._network = network
        self._log = log

    def read(self, container_id: str, ifname: str) -> DeviceRecord | None:
        """Return the record of an attachment; None if there is none, or it cannot be read. Raises OSError."""
        try:
            state = self._files.read(container_id, ifname)
            return None if state is None else DeviceRecord.decode(state)
        except CniError as error:
            self._log(f"ignoring a record of a lent device: {error}")
            return None

    def write(self, container_id: str, ifname: str, recorded: DeviceRecord) -> None:
        """Store the record of an attachment. Raises OSError."""
        self._files.write(container_id, ifname, recorded.encode())

    def remove(self, container_id: str, ifname: str) -> None:
        """Remove the record of an attachment, if there is one, and with the last its folder. Raises OSError."""
        self._files.remove(container_id, ifname)
        with suppress(OSError):  # other attachments have records, or there is no folder
            os.rmdir(f"{_FOLDER}/{self._network}")
            os.rmdir(_FOLDER)

    def attachments(self) -> "list[Owner]":
        """Return the attachments that have a record. Raises OSError."""
        from firewall.owner import Owner

        return [Owner(self._network, *attachment) for attachment in self._files.attachments()]

    def of_all_networks(self) -> "list[tuple[Owner, DeviceRecord]]":
        """Return every record of the node. Raises OSError."""
        found = []
        for name in _networks():
            records = DeviceRecords(name, self._log)
            for owner in records.attachments():
                recorded = records.read(owner.container_id, owner.ifname)
                if recorded is not None:
                    found.append((owner, recorded))
        return found


@contextmanager
def locked(interruption: "Interruption") -> "Iterator[None]":
    """Hold the node's lock for lent devices, after waiting for its holder; a signal may end the wait. Raises OSError.

    While it is held, a marked device on the host is one of a call that was killed, or of a namespace that is gone.
    """
    os.makedirs(_LOCKED, mode=0o755, exist_ok=True)
    lock = os.open(_LOCKED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        interruption.lock(lock)
        yield
    finally:
        os.close(lock)


def mark_of(owner: "Owner") -> str:
    """Return the alternative name of a device that is lent to an attachment."""
    return f"{network_mark(owner.network)}{_hash(f'{owner.container_id}/{owner.ifname}', 24)}"


def up_mark_of(owner: "Owner") -> str:
    """Return the second alternative name of a lent device that was up: it comes back up even without its record."""
    return f"{mark_of(owner)}{_UP}"


def was_up(names: "Iterable[str]") -> bool:
    """Tell whether these alternative names are of a lent device that was up."""
    return any(is_mark(name) and name.endswith(_UP) for name in names)


def network_mark(network: str) -> str:
    """Return the beginning of the marks of a network's attachments."""
    return f"{_MARK}{_hash(network, 8)}-"


def is_mark(name: str) -> bool:
    """Tell whether an alternative name is the mark of a lent device."""
    return name.startswith(_MARK)


def _hash(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


def _networks() -> list[str]:
    try:
        return sorted(os.listdir(_FOLDER))
    except FileNotFoundError:
        return []


def _boot_id() -> str:
    fd = os.open(_BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 64).decode().strip()
    finally:
        os.close(fd)
