"""Moving a lent device back to the host, and restoring its state there.

The device is in the pod, or on the host already: the kernel moves it there when the pod's namespace ends.
"""

import errno
import os

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import TYPE_CHECKING, Callable, Iterable
from netlink.addresses import new_address
from netlink.altnames import delete_altname
from netlink.link import Link
from netlink.link_wire import change_link
from netlink.namespace import Namespace, current_namespace, open_namespace
from netlink.request import ANY, RtnlRequest, change
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from plugins.attach.pod_interface import encoded_route
from plugins.host_device.device_record import DeviceRecord, is_mark, mark_of, record_of, was_up
from skel import CniError, Code
from skel.environment import ifname_flaw

if TYPE_CHECKING:
    from firewall.owner import Owner


def marked(rtnl: Rtnl, mark: str, guess: str = "") -> Link | None:
    """Return the link with the alternative name `mark`, which may have the name `guess`; None if there is none.

    Before Linux 6.6 a link that has moved is not found by its alternative names, but shows them.
    """
    for name in (mark, guess):
        found = rtnl.link(name) if name else None
        if found is not None and mark in found.altnames:
            return found
    return next((link for link in rtnl.links() if mark in link.altnames), None)


def return_device(owner: "Owner", recorded: DeviceRecord | None, netns: str, log: Callable[[str], None]) -> bool:
    """Move the device that is lent to `owner` to the host, as it was; False if it is in no namespace that is known.

    It is looked for in the pod (at `netns`, then at the path in the record), then on the host. `log` gets each part
    that could not be restored. Raises CniError (999) if another interface of the host has the device's name, and
    OSError.
    """
    mark = mark_of(owner)
    with current_namespace() as host_netns, Rtnl() as host:
        for namespace in _namespaces((netns, recorded.netns if recorded else ""), host_netns):
            with namespace, Rtnl(namespace) as pod:
                inner = marked(pod, mark, owner.ifname)
                if inner is not None:
                    _move_to_host(pod, inner, _original_name(inner, recorded), host_netns, host, log)
                    break
        found = marked(host, mark, recorded.name if recorded else "")
        if found is None:
            return False
        restore(host, found, recorded, log)
    return True


def return_device_of_reference(ifname: str, netns: str, log: Callable[[str], None]) -> None:
    """Move a device that the reference plugin has put into the pod to the host, under its name, down.

    An interface is not such a device if its alias is no interface name. Raises as `return_device`.
    """
    with current_namespace() as host_netns:
        for namespace in _namespaces((netns,), host_netns):
            with namespace, Rtnl(namespace) as pod, Rtnl() as host:
                inner = pod.link(ifname)
                if inner is None or ifname_flaw(inner.alias) or any(map(is_mark, inner.altnames)):
                    return
                _move_to_host(pod, inner, inner.alias, host_netns, host, log)
                found = host.link(inner.alias)
                if found is not None:
                    restore(host, found, None, log)


def restore(host: Rtnl, link: Link, recorded: DeviceRecord | None, log: Callable[[str], None]) -> None:
    """Give a device that is on the host its name, state, addresses and routes, and take the mark away.

    Without a record it gets its name, and is up if its marks say so. Raises CniError (999) if its name is taken, and
    OSError.
    """
    name = _original_name(link, recorded)
    if link.name != name:
        host.set_down(link.ifindex)
        try:
            host.rename(link.ifindex, name)
        except NetlinkError as error:
            raise _taken(error, name) from None
    # The marks go last, the longer one first: until then a call that was killed is repeated.
    marks = [delete_altname(link.ifindex, each) for each in sorted(link.altnames, key=len)[::-1] if is_mark(each)]
    if recorded is not None:
        state = _state(host, link, recorded)
    else:
        up = change(change_link(link.ifindex, up=True), "set it up", ANY)
        state = [up] if was_up(link.altnames) else []
    alias = change(change_link(link.ifindex, alias=recorded.alias if recorded else ""), f"set the alias of {name!r}")
    host.send(*state, alias)
    for request in state:
        if not request.answer:
            log(f'"{name}" is back on the host, but the kernel refused to {request.doing}')
    host.send(*marks)


def _state(host: Rtnl, link: Link, recorded: DeviceRecord) -> list[RtnlRequest[bool]]:
    """Return the requests that restore the parts that the kernel forgot; it may refuse each of them."""
    index = link.ifindex
    master = host.link(recorded.master) if recorded.master else None
    settings = change_link(
        index,
        mtu=recorded.mtu if recorded.mtu != link.mtu else 0,
        mac=recorded.mac if recorded.mac != link.mac else "",
        promiscuous=recorded.promiscuous,
        master=master.ifindex if master else 0,
    )
    requests = [change(settings, "restore MTU, MAC and bridge", ANY)]
    present = {address.interface for address in host.addresses(index)}
    requests += [
        change(
            new_address(index, each.address, nodad=each.nodad, broadcast=each.broadcast),
            f"restore the address {each.address}",
            ANY,
        )
        for each in recorded.addresses
        if each.address not in present
    ]
    if recorded.up:
        requests.append(change(change_link(index, up=True), "set it up", ANY))
        for route in recorded.routes:
            doing = f"restore the route to {route.dst}"
            requests.append(change(encoded_route(index, route, route.gw), doing, ANY))
    return requests


def _move_to_host(
    pod: Rtnl, inner: Link, name: str, host_netns: Namespace, host: Rtnl, log: Callable[[str], None]
) -> None:
    """Move a device from the pod to the host under its name.

    Raises CniError (999) if the host has such a name, or one of its alternative names; the device then stays in the pod
    as it was.
    """
    index = inner.ifindex
    if host.link(name) is not None:
        raise _taken(NetlinkError(errno.EEXIST, os.strerror(errno.EEXIST)), name)
    before = record_of(pod, inner)
    down = change(change_link(index, up=False), f"set link {index} down")
    # In the pod first: programs of the host that watch for devices never see it under the pod's name.
    renamed = change(change_link(index, name=name), f"rename link {index}", (errno.EEXIST,))
    pod.send(down, renamed)
    try:
        pod.move_link(index, host_netns, name)
    except NetlinkError as error:
        # Another interface may have got the name since the look. The kernel looks at names before it moves a device; it
        # has moved this one only if the pod has the name, too: then the next DEL renames it on the host.
        if pod.link(index) is not None:
            _restore_in_pod(pod, inner, before, log)
        raise _taken(error, name, *(each for each in inner.altnames if not is_mark(each))) from None


def _restore_in_pod(pod: Rtnl, inner: Link, before: DeviceRecord, log: Callable[[str], None]) -> None:
    """Give a device that could not leave the pod its name, addresses, routes and state there."""
    requests = [change(change_link(inner.ifindex, name=inner.name), "restore the name", ANY)]
    requests += _state(pod, inner, before)
    pod.send(*requests)
    for request in requests:
        if not request.answer:
            log(f'"{inner.name}" stays in the pod, but the kernel refused to {request.doing}')


def _taken(error: NetlinkError, name: str, *altnames: str) -> Exception:
    if error.errno != errno.EEXIST:
        return error
    if not altnames:
        message = f'the device "{name}" cannot have its name back: another interface of the host has it'
    else:
        names = ", ".join((name, *altnames))
        message = f'the device "{name}" cannot go back: another interface of the host has one of its names: {names}'
    return CniError(Code.INTERNAL, message)


def _original_name(link: Link, recorded: DeviceRecord | None) -> str:
    """Return the name that a device had on the host: of the record, of its alias, or its present one."""
    if recorded is not None:
        return recorded.name
    return link.name if ifname_flaw(link.alias) else link.alias


def _namespaces(paths: Iterable[str], host_netns: Namespace) -> Iterable[Namespace]:
    """Yield the open namespaces at `paths` that exist, once each, without the host's."""
    seen = {host_netns.identity}
    for path in dict.fromkeys(filter(None, paths)):
        with suppress(OSError):
            namespace = open_namespace(path)
            if namespace.identity in seen:
                namespace.close()
                continue
            seen.add(namespace.identity)
            yield namespace
