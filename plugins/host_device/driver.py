"""The steps of host-device: lend a device to the pod, and take it back.

Nothing of an attachment is on the host while the pod has the device, so REPAIR has nothing to do.
"""

import errno

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.driver import Adding, Attached, Driver
from plugins.host_device.config import HostDeviceConfig, WantedDevice
from skel import CniError, Code

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.link import Link
    from netlink.rtnl import Rtnl
    from plugins.host_device.device_record import DeviceRecord, DeviceRecords
    from skel.steps import Steps

_RETURN_SECONDS = 2.5
"""How long the kernel may take to move hardware back to the host when a namespace has ended."""
_CARRIER_SECONDS = 4.0
"""How long a network card may take to find its neighbour: then its IPv6 addresses are probed."""
_REFUSALS = errno.EBUSY, errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL, errno.EADDRNOTAVAIL
"""Errors of drivers that do not set the MAC of a device that is up, or is virtualized."""


class HostDeviceDriver(Driver[HostDeviceConfig]):
    """A device of the host, of any kind."""

    kind = None
    # Neighbours on the device's network may have the addresses, and the reference waits for the detection, too.
    dad = True

    _has_waited = False

    @property
    def has_link(self) -> bool:
        """False for a device that a program drives, as with DPDK. Raises CniError (7)."""
        from plugins.host_device.lookup import is_for_user_space

        wanted = self.config.wanted
        return wanted is None or not is_for_user_space(wanted)

    @property
    def records(self) -> "DeviceRecords":
        """The records of this network. Raises CniError for an unread name."""
        from plugins.host_device.device_record import DeviceRecords

        return DeviceRecords(self.config.name, self.args.log)

    def make(self, at: Adding) -> int:
        """Move the device into the pod, after its record is written."""
        from netlink.altnames import add_altname
        from netlink.link_wire import change_link
        from netlink.request import change
        from netlink.rtnl import Rtnl
        from plugins.host_device.device_record import locked, mark_of, record_of, up_mark_of
        from plugins.host_device.device_return import marked, return_device

        wanted, ifname, args = self.config.require_wanted(), self.args.ifname, self.args
        if not self.has_link:
            return 0
        mark = mark_of(self.owner)
        with locked(args.interruption), Rtnl(at.netns) as pod:
            if pod.link(ifname) is not None:
                message = f'cannot move a device to "{ifname}" in {at.netns.path}: it exists already'
                raise CniError(Code.INTERNAL, message)
            before = self.records.read(args.container_id, ifname)
            if before is not None:  # of an ADD that was killed
                return_device(self.owner, before, args.netns, args.log)
            device = self._free_device(at.host, wanted)
            recorded = record_of(at.host, device, wanted, args.netns)
            at.undo.add(self._return)
            self.records.write(args.container_id, ifname, recorded)
            alias = change(change_link(device.ifindex, alias=device.name), f"set the alias of {device.name!r}")
            # Before the move: if this process is killed then, the device itself says whose it is.
            marks = [mark, up_mark_of(self.owner)] if device.up else [mark]
            at.host.send(*(add_altname(device.ifindex, each) for each in marks), alias)
            at.host.move_link(device.ifindex, at.netns, ifname)
            moved = marked(pod, mark, ifname)
            if moved is None:
                raise CniError(Code.INTERNAL, f'"{device.name}" did not arrive in {at.netns.path}')
            if self.config.mtu:
                pod.set_mtu(moved.ifindex, self.config.mtu)
        return moved.ifindex

    def wait_reachable(self, at: Adding, pod: "Rtnl") -> None:
        """Return when the device has a carrier, or after a while without one. A pod without addresses does not wait."""
        if at.result.ips and not self._has_waited:
            self._has_waited = True
            found = pod.link(self.args.ifname)
            if found is not None:
                pod.wait_oper_up(found.ifindex, _CARRIER_SECONDS)

    def announce(self, pod: "Rtnl", inner: "Link") -> None:
        """Tell the neighbours the MAC, if the device's driver permits it."""
        from netlink.wire import NetlinkError

        try:
            super().announce(pod, inner)
        except NetlinkError as error:
            if error.errno not in _REFUSALS:
                raise
            self.args.log(f"neighbours are not told of the pod's addresses: {error.strerror}")

    def unmake(self, steps: "Steps") -> None:
        """Take the device back; a device that the reference plugin has lent, too."""
        steps.take(self._return)

    def verify(self, at: Attached) -> None:
        """Compare the device with its record, which DEL needs."""
        from plugins.host_device.device_record import mark_of

        inner, name, mtu = at.inner, at.inner.name, self.config.mtu
        recorded = self.records.read(self.args.container_id, name)
        if recorded is not None and mark_of(self.owner) not in inner.altnames:
            raise CniError(Code.INTERNAL, f'"{name}" in the container is not the device "{recorded.name}" of the host')
        if not inner.alias:
            message = f'the alias of "{name}" in the container is missing: it is the device\'s name on the host'
            raise CniError(Code.INTERNAL, message)
        if mtu and inner.mtu != mtu:
            message = f'MTU of "{name}" is {inner.mtu}, the configuration says {mtu}'
            raise CniError(Code.INTERNAL, message)

    def stale(self, valid: "Collection[Owner]", steps: "Steps") -> None:
        """Take back the devices of attachments that are no longer valid."""
        from netlink.rtnl import Rtnl
        from plugins.host_device.device_record import locked, mark_of, network_mark, up_mark_of
        from plugins.host_device.device_return import restore

        with locked(self.args.interruption):
            for owner in self.records.attachments():
                if owner not in valid:
                    steps.take(self._return_device, owner, "")
            # Also devices without a record, if the kernel has moved them back to the host.
            begin = network_mark(self.config.name)
            kept = {name for owner in valid for name in (mark_of(owner), up_mark_of(owner))}
            with Rtnl() as host:
                for link in host.links():
                    if any(name.startswith(begin) and name not in kept for name in link.altnames):
                        steps.take(restore, host, link, None, self.args.log)

    def status(self) -> None:
        """Raise CniError: 7 if no key names a device, 50 if it is missing, and no pod has it.

        The capability `deviceID` names it at ADD alone.
        """
        from netlink.rtnl import Rtnl
        from plugins.host_device.lookup import find_device

        if self.config.wanted is None and self.config.capabilities.get("deviceID"):
            return
        wanted = self.config.require_wanted()
        try:
            if not self.has_link:
                return
            with Rtnl() as host:
                found = find_device(host, wanted)
        except CniError as error:
            raise CniError(Code.NOT_AVAILABLE, error.msg) from None
        if found is None and not any(recorded.names(wanted) for _, recorded in self.records.of_all_networks()):
            raise CniError(Code.NOT_AVAILABLE, _missing(wanted))

    def _free_device(self, host: "Rtnl", wanted: WantedDevice) -> "Link":
        """Return the host's device, which no pod has; the node's lock is held.

        A device may be on the host with a mark, after a killed call or the end of a namespace: it gets its own name
        first. Raises CniError: 7 if the device is missing, 11 if another attachment has it.
        """
        from plugins.host_device.device_record import is_mark, mark_of
        from plugins.host_device.device_return import marked, restore
        from plugins.host_device.lookup import find_device

        lent = {mark_of(owner): (owner, recorded) for owner, recorded in self.records.of_all_networks()}
        wanted_ones = [(owner, recorded) for owner, recorded in lent.values() if recorded.names(wanted)]
        for owner, recorded in wanted_ones:
            if marked(host, mark_of(owner), recorded.name) is not None:
                self._restore(owner, recorded)
        device = find_device(host, wanted)
        if device is not None and any(map(is_mark, device.altnames)):
            # The end of a namespace has left it on the host under the name that it had in the pod.
            owner_and_record = next((lent[name] for name in device.altnames if name in lent), None)
            if owner_and_record is None:
                restore(host, device, None, self.args.log)
            else:
                self._restore(*owner_and_record)
            device = find_device(host, wanted)
        if device is not None:
            return device
        for owner, recorded in wanted_ones:
            if _is_in(recorded, mark_of(owner)):
                holder = f'the interface "{owner.ifname}" of the container {owner.container_id}'
                message = f'{wanted.key}: "{wanted.value}" is in use: it is {holder}, network "{owner.network}"'
                raise CniError(Code.TRY_AGAIN_LATER, message)
        raise CniError(Code.INVALID_CONFIG, _missing(wanted))

    def _restore(self, owner: "Owner", recorded: "DeviceRecord") -> None:
        """Give a marked device of the host, of any network, its own name and state."""
        from plugins.host_device.device_record import DeviceRecords
        from plugins.host_device.device_return import return_device

        return_device(owner, recorded, "", self.args.log)
        DeviceRecords(owner.network, self.args.log).remove(owner.container_id, owner.ifname)

    def _return(self) -> None:
        """Take the attachment's device back. If its namespace is gone, wait until the kernel has moved it."""
        args = self.args
        recorded = self.records.read(args.container_id, args.ifname)
        if recorded is None and not args.netns:
            return
        from netlink.rtnl import Rtnl
        from plugins.host_device.device_record import locked, mark_of

        with locked(args.interruption):
            if self._return_device(self.owner, args.netns):
                return
        # Without the lock: the kernel may take seconds, and other devices need not wait for this one.
        with args.interruption.waiting(), Rtnl() as host:
            host.wait_link(mark_of(self.owner), _RETURN_SECONDS)
        with locked(args.interruption):
            if not self._return_device(self.owner, args.netns) and recorded is not None:
                args.log(
                    f'"{recorded.name}" is in no namespace that is known: GC or the next ADD gives it its name back'
                )

    def _return_device(self, owner: "Owner", netns: str) -> bool:
        """Take the device of an attachment back, and remove its record; the node's lock is held.

        Return False, and keep the record, if the kernel has yet to move the device back to the host.
        """
        from plugins.host_device.device_return import return_device, return_device_of_reference

        attachment, log = (owner.container_id, owner.ifname), self.args.log
        recorded = self.records.read(*attachment)
        if recorded is None:
            if netns and not return_device(owner, None, netns, log):
                return_device_of_reference(owner.ifname, netns, log)
        elif not return_device(owner, recorded, netns, log):
            if recorded.is_of_this_boot and not recorded.kind and not _is_on_host(recorded):
                return False
            if not _is_on_host(recorded):
                log(f'"{recorded.name}" is gone: the kernel removes such interfaces with their network namespace')
        self.records.remove(*attachment)
        return True


def _is_in(recorded: "DeviceRecord", mark: str) -> bool:
    """Tell whether a lent device is in the pod's namespace."""
    from netlink.namespace import open_namespace
    from netlink.rtnl import Rtnl
    from plugins.host_device.device_return import marked

    try:
        with open_namespace(recorded.netns) as namespace, Rtnl(namespace) as pod:
            return marked(pod, mark) is not None
    except OSError:
        return False


def _is_on_host(recorded: "DeviceRecord") -> bool:
    """Tell whether a device is on the host without a mark: it was given back, and its record was not removed."""
    from netlink.rtnl import Rtnl
    from plugins.host_device.device_record import is_mark

    with Rtnl() as host:
        found = host.link(recorded.name)
    return found is not None and found.mac == recorded.mac and not any(map(is_mark, found.altnames))


def _missing(wanted: WantedDevice) -> str:
    return f'{wanted.key}: there is no interface for "{wanted.value}" on the host'
