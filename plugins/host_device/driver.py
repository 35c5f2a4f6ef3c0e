"""The steps of host-device: lend a device to the pod, and take it back.

Nothing of an attachment is on the host while the pod has the device, so REPAIR has nothing to do.
"""

import errno

from lean.typing import TYPE_CHECKING
from plugins.attach.driver import Driver, Made
from plugins.host_device.config import HostDeviceConfig, WantedDevice
from skel import CniError, Code

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.link import Link
    from plugins.host_device.loan import Loan, Loans
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
    def loans(self) -> "Loans":
        """The records of this network. Raises CniError for an unread name."""
        from plugins.host_device.loan import Loans

        return Loans(self.config.name, self.args.log)

    def make(self) -> Made:
        """Move the device into the pod, after its record is written."""
        from netlink.altnames import add_altname
        from netlink.link_wire import change_link
        from netlink.request import change
        from netlink.rtnl import Rtnl
        from plugins.host_device.giving_back import give_back, marked
        from plugins.host_device.loan import loan_of, locked, mark_of, up_mark_of

        wanted, ifname, args = self.config.require_wanted(), self.args.ifname, self.args
        if not self.has_link:
            return Made([], 0)
        mark = mark_of(self.owner)
        with locked(args.interruption), Rtnl(self.netns) as pod:
            if pod.link(ifname) is not None:
                message = f'cannot move a device to "{ifname}" in {self.netns.path}: it exists already'
                raise CniError(Code.INTERNAL, message)
            before = self.loans.read(args.container_id, ifname)
            if before is not None:  # of an ADD that was killed
                give_back(self.owner, before, args.netns, args.log)
            device = self._free_device(wanted)
            loan = loan_of(self.host, device, wanted, args.netns)
            self.undo.add(self._return)
            self.loans.write(args.container_id, ifname, loan)
            alias = change(change_link(device.ifindex, alias=device.name), f"set the alias of {device.name!r}")
            marks = [mark, up_mark_of(self.owner)] if device.up else [mark]
            self.host.send(*(add_altname(device.ifindex, each) for each in marks), alias)
            self.host.move_link(device.ifindex, self.netns, ifname)
            moved = marked(pod, mark, ifname)
            if moved is None:
                raise CniError(Code.INTERNAL, f'"{device.name}" did not arrive in {self.netns.path}')
            if self.config.mtu:
                pod.set_mtu(moved.ifindex, self.config.mtu)
        return Made([], moved.ifindex)

    def wait_reachable(self) -> None:
        """Return when the device has a carrier, or after a while without one. A pod without addresses does not wait."""
        if self.result.ips and not self._has_waited:
            self._has_waited = True
            found = self.pod.link(self.args.ifname)
            if found is not None:
                self.pod.wait_oper_up(found.ifindex, _CARRIER_SECONDS)

    def announce(self) -> None:
        """Tell the neighbours the MAC, if the device's driver permits it."""
        from netlink.wire import NetlinkError

        try:
            super().announce()
        except NetlinkError as error:
            if error.errno not in _REFUSALS:
                raise
            self.args.log(f"neighbours are not told of the pod's addresses: {error.strerror}")

    def unmake(self, steps: "Steps") -> None:
        """Take the device back; a device that the reference plugin has lent, too."""
        steps.take(self._return)

    def verify(self) -> None:
        """Compare the device with its record, which DEL needs."""
        from plugins.host_device.loan import mark_of

        name, mtu = self.inner.name, self.config.mtu
        loan = self.loans.read(self.args.container_id, name)
        if loan is not None and mark_of(self.owner) not in self.inner.altnames:
            raise CniError(Code.INTERNAL, f'"{name}" in the container is not the device "{loan.name}" of the host')
        if not self.inner.alias:
            message = f'the alias of "{name}" in the container is missing: it is the device\'s name on the host'
            raise CniError(Code.INTERNAL, message)
        if mtu and self.inner.mtu != mtu:
            message = f'MTU of "{name}" is {self.inner.mtu}, the configuration says {mtu}'
            raise CniError(Code.INTERNAL, message)

    def stale(self, valid: "Collection[Owner]", steps: "Steps") -> None:
        """Take back the devices of attachments that are no longer valid."""
        from netlink.rtnl import Rtnl
        from plugins.host_device.giving_back import restore
        from plugins.host_device.loan import locked, mark_of, network_mark, up_mark_of

        with locked(self.args.interruption):
            for owner in self.loans.attachments():
                if owner not in valid:
                    steps.take(self._give_back, owner, "")
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
        if found is None and not any(loan.names(wanted) for _, loan in self.loans.of_all_networks()):
            raise CniError(Code.NOT_AVAILABLE, _missing(wanted))

    def _free_device(self, wanted: WantedDevice) -> "Link":
        """Return the host's device, which no pod has; the node's lock is held.

        A device may be on the host with a mark, after a killed call or the end of a namespace: it gets its own name
        first. Raises CniError: 7 if the device is missing, 11 if another attachment has it.
        """
        from plugins.host_device.giving_back import marked, restore
        from plugins.host_device.loan import is_mark, mark_of
        from plugins.host_device.lookup import find_device

        lent = {mark_of(owner): (owner, loan) for owner, loan in self.loans.of_all_networks()}
        wanted_ones = [(owner, loan) for owner, loan in lent.values() if loan.names(wanted)]
        for owner, loan in wanted_ones:
            if marked(self.host, mark_of(owner), loan.name) is not None:
                self._restore(owner, loan)
        device = find_device(self.host, wanted)
        if device is not None and any(map(is_mark, device.altnames)):
            # The end of a namespace has left it on the host under the name that it had in the pod.
            owner_and_loan = next((lent[name] for name in device.altnames if name in lent), None)
            if owner_and_loan is None:
                restore(self.host, device, None, self.args.log)
            else:
                self._restore(*owner_and_loan)
            device = find_device(self.host, wanted)
        if device is not None:
            return device
        for owner, loan in wanted_ones:
            if _is_in(loan, mark_of(owner)):
                holder = f'the interface "{owner.ifname}" of the container {owner.container_id}'
                message = f'{wanted.key}: "{wanted.value}" is in use: it is {holder}, network "{owner.network}"'
                raise CniError(Code.TRY_AGAIN_LATER, message)
        raise CniError(Code.INVALID_CONFIG, _missing(wanted))

    def _restore(self, owner: "Owner", loan: "Loan") -> None:
        """Give a marked device of the host, of any network, its own name and state."""
        from plugins.host_device.giving_back import give_back
        from plugins.host_device.loan import Loans

        give_back(owner, loan, "", self.args.log)
        Loans(owner.network, self.args.log).remove(owner.container_id, owner.ifname)

    def _return(self) -> None:
        """Take the attachment's device back. If its namespace is gone, wait until the kernel has moved it."""
        args = self.args
        loan = self.loans.read(args.container_id, args.ifname)
        if loan is None and not args.netns:
            return
        from netlink.rtnl import Rtnl
        from plugins.host_device.loan import locked, mark_of

        with locked(args.interruption):
            if self._give_back(self.owner, args.netns):
                return
        with args.interruption.waiting(), Rtnl() as host:
            host.wait_link(mark_of(self.owner), _RETURN_SECONDS)
        with locked(args.interruption):
            if not self._give_back(self.owner, args.netns) and loan is not None:
                args.log(f'"{loan.name}" is in no namespace that is known: GC or the next ADD gives it its name back')

    def _give_back(self, owner: "Owner", netns: str) -> bool:
        """Take the device of an attachment back, and remove its record; the node's lock is held.

        Return False, and keep the record, if the kernel has yet to move the device back to the host.
        """
        from plugins.host_device.giving_back import give_back, give_back_of_reference

        attachment, log = (owner.container_id, owner.ifname), self.args.log
        loan = self.loans.read(*attachment)
        if loan is None:
            if netns and not give_back(owner, None, netns, log):
                give_back_of_reference(owner.ifname, netns, log)
        elif not give_back(owner, loan, netns, log):
            if loan.is_of_this_boot and not loan.kind and not _is_home(loan):
                return False
            if not _is_home(loan):
                log(f'"{loan.name}" is gone: the kernel removes such interfaces with their network namespace')
        self.loans.remove(*attachment)
        return True


def _is_in(loan: "Loan", mark: str) -> bool:
    """Tell whether a lent device is in the pod's namespace."""
    from netlink.namespace import open_namespace
    from netlink.rtnl import Rtnl
    from plugins.host_device.giving_back import marked

    try:
        with open_namespace(loan.netns) as namespace, Rtnl(namespace) as pod:
            return marked(pod, mark) is not None
    except OSError:
        return False


def _is_home(loan: "Loan") -> bool:
    """Tell whether a device is on the host without a mark: it was given back, and its record was not removed."""
    from netlink.rtnl import Rtnl
    from plugins.host_device.loan import is_mark

    with Rtnl() as host:
        found = host.link(loan.name)
    return found is not None and found.mac == loan.mac and not any(map(is_mark, found.altnames))


def _missing(wanted: WantedDevice) -> str:
    return f'{wanted.key}: there is no interface for "{wanted.value}" on the host'
