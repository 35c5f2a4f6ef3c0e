"""A veth pair between the host and the pod, or a netkit pair, as every plugin that uses one makes and checks it.

Plugins give both ends a MAC, because udev(7) replaces a MAC that the kernel chose, at any later moment.
"""

import errno

from fast_stdlib.typing import Callable
from netlink.kinds import PAIRS
from netlink.link import Link
from netlink.namespace import Namespace
from netlink.rtnl import Rtnl, is_oper_up
from netlink.wire import NetlinkError
from plugins.attach.pod_interface import check_mac
from skel import CniError, Code, Result

_UP_SECONDS = 2.5
"""How long the host's end may take to come up; the reference gives a bridge's port as much."""


def make_pair(make: Callable[[str], Link], device_type: str | None, log: Callable[[str], None], names: str) -> Link:
    """Return what `make` makes with a pair of a kind, "netkit" if `device_type` says so, else "veth".

    If the kernel has no netkit, or none with a MAC, it is a veth pair, and `log` gets a note. Raises CniError if one of
    the pair's `names` is taken: the pod's interface must not exist (SPEC.md section 2, ADD). Raises NetlinkError.
    """
    kind = device_type or "veth"
    try:
        return make(kind)
    except NetlinkError as error:
        if error.errno == errno.EEXIST:
            message = f"cannot connect {names}: an interface of that name exists already"
            raise CniError(Code.INTERNAL, message) from None
        if kind != "netkit" or error.errno != errno.EOPNOTSUPP:
            raise
        log(f"deviceType: this kernel has no netkit for pods, so the pair is veth: {error.strerror}")
    return make_pair(make, None, log, names)


def names_of(name: str, peer: str, namespace: Namespace) -> str:
    """Return the names of a pair for an error: `name`, and `peer` in `namespace`."""
    return f'"{peer}" in {namespace.path} by "{name}"'


def delete_own(host: Rtnl, name: str, mac: str) -> None:
    """Delete a link if it has the random MAC that this ADD gave it; another link of that name stays.

    Raises NetlinkError.
    """
    link = host.link(name)
    if link is not None and link.mac == mac:
        host.delete_link(link.ifindex)


def wait_up(host: Rtnl, port: Link) -> Link:
    """Return the host's end when it passes packets, at once if it did when it was last seen. Raises CniError (11)."""
    risen = port if is_oper_up(port) else host.wait_oper_up(port.ifindex, _UP_SECONDS)
    if risen is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'"{port.name}" did not come up in {_UP_SECONDS} s')
    return risen


def check_host_end(host: Rtnl, result: Result, inner: Link) -> Link:
    """Return the host's end of the pod's interface.

    Raises CniError (999) if it is missing, down, or differs from the result.
    """
    found = find_host_end(host, result, inner)
    for expected in result.interfaces:
        if not expected.sandbox and expected.name == found.name:
            check_mac(expected, found)
    if not found.up:
        raise CniError(Code.INTERNAL, f'"{found.name}" is down')
    return found


def find_host_end(host: Rtnl, result: Result, inner: Link) -> Link:
    """Return the host's end of the pod's interface, which the result lists. Raises CniError (999) if it is missing."""
    found = host.link(inner.peer_ifindex)
    listed = {interface.name for interface in result.interfaces if not interface.sandbox}
    if found is None or found.kind not in PAIRS or found.peer_ifindex != inner.ifindex or found.name not in listed:
        raise CniError(Code.INTERNAL, f'the host\'s end of "{inner.name}" is missing')
    return found
