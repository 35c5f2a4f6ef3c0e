"""The host's side of the bridge plugin: the bridge and the ports of pods.

Each function that takes an `undo` registers on it how to unmake what it made, so
that an ADD that fails later leaves the node as it found it.
"""

import errno
import fcntl
from contextlib import suppress

from lean.typing import NamedTuple
from netlink.addresses import list_addresses
from netlink.link import find_fdb_owner, find_link
from netlink.namespace import Namespace, current_namespace
from netlink.rtnl import Address, Link, Rtnl, is_oper_up
from netlink.socket import NetlinkError
from netlink.sysctl import read_sysctl, write_sysctl
from netlink.sysfs import has_set_mac
from plugins.attach.keys import random_mac
from plugins.bridge.config import BridgeConfig
from plugins.bridge.undo import BridgeUndo
from skel import CniError, Code, Undo

__all__ = [
    "Connected",
    "bring_up",
    "check_available",
    "connect",
    "delete_own",
    "ensure_bridge",
    "require_bridge",
    "tag",
    "wait_port_up",
]

_PORT_SECONDS = 2.5
"""How long a port may take to come up; the reference gives it as much."""
_NO_MAC = "00:00:00:00:00:00"


class Connected(NamedTuple):
    """A bridge and its new port as they are then."""

    bridge: Link
    port: Link
    addresses: list[Address]
    """Of the bridge."""


def ensure_bridge(host: Rtnl, config: BridgeConfig, undo: BridgeUndo) -> Link:
    """Return the network's bridge, up; make it if it is missing. `connect` sees to it that it keeps its MAC.

    Raises CniError (7) where the name belongs to something else, NetlinkError.
    """
    found = host.link(config.bridge)
    if found is None:
        found = _make_bridge(host, config, undo)
    bridge = _usable(found, config)
    if config.promisc_mode and not bridge.promiscuous:
        back = undo.unless_counted_on(host.set_promiscuous, bridge.ifindex, on=False)
        undo.add(back)
        host.set_promiscuous(bridge.ifindex, on=True)
    if bridge.accepts_ra:
        _refuse_advertised_routes(bridge.name, undo)
    bring_up(host, bridge, undo)
    return bridge


def require_bridge(host: Rtnl, name: str) -> Link:
    """Return the bridge called `name`. Raises CniError (7) where it is missing or no bridge."""
    return _required(host.link(name), name)


def bring_up(host: Rtnl, link: Link, undo: BridgeUndo) -> None:
    """Set the bridge, or the gateway of a VLAN on it, up. Raises NetlinkError."""
    if not link.up:
        back = undo.unless_counted_on(host.set_down, link.ifindex)
        undo.add(back)
        host.set_up(link.ifindex)


def connect(  # noqa: PLR0913 -- what a port is made from, each by its name
    host: Rtnl,
    bridge: Link,
    config: BridgeConfig,
    undo: Undo,
    *,
    name: str,
    port_mac: str = "",
    peer: str,
    namespace: Namespace,
    mac: str = "",
    alias: str = "",
    for_pod: bool = True,
) -> Connected:
    """Make a veth pair: `name`, a port of the bridge, and `peer` in `namespace`.

    By `port_mac`, one of `random_mac` above the bridge's, the port is known again (see `delete_own`): by nothing else
    if this fails. Without MACs they are random; they are set, as udev(7) replaces one of the kernel's, in its own time.

    `hairpinMode` and `portIsolation` are about pods' ports: isolated ones must reach their gateway's. Raises CniError
    where either name is taken: an interface of that name must not exist (SPEC.md section 2, ADD), and NetlinkError.
    """
    owner = find_fdb_owner(bridge.ifindex, bridge.mac)
    now = find_link(bridge.ifindex)
    present = list_addresses(bridge.ifindex)
    try:
        port = host.create_veth(
            name,
            peer_name=peer,
            peer_namespace=namespace,
            mtu=config.mtu,
            mac=port_mac or random_mac(above=bridge.mac),
            peer_mac=mac or random_mac(),
            master=bridge.ifindex,
            alias=alias,
            hairpin=for_pod and config.hairpin_mode,
            isolated=for_pod and config.port_isolation,
            looks=(owner, now, present),
        )
    except NetlinkError as error:
        if error.errno != errno.EEXIST:
            raise
        message = f'cannot connect "{peer}" in {namespace.path} by "{name}": an interface of that name exists already'
        raise CniError(Code.INTERNAL, message) from None
    joined = _required(now.answer, bridge.name)  # with the MTU that it may have taken from the port
    # With a port, a bridge that was given no MAC has that of a port. With one of its own, it was given that.
    if joined.mac != bridge.mac or owner.answer != bridge.ifindex:
        joined = _keep_mac(host, bridge, port, undo)
    return Connected(joined, port, present.answer)


def delete_own(host: Rtnl, name: str, mac: str) -> None:
    """Delete a link if it was made here, with this random MAC; another of that name stays. Raises NetlinkError."""
    link = host.link(name)
    if link is not None and link.mac == mac:
        host.delete_link(link.ifindex)


def tag(host: Rtnl, port: Link, config: BridgeConfig, trunk: list[int]) -> None:
    """Put a port into the configuration's VLANs. Raises NetlinkError."""
    if not config.filters_vlans:
        return
    if not config.preserve_default_vlan:
        for vid in host.vlans(port.ifindex):
            host.delete_vlan(port.ifindex, vid)
    # A trunk without a VLAN of its own keeps 1 as its native one, as the reference has it.
    native = config.vlan or 1
    host.add_vlan(port.ifindex, native, pvid=True, untagged=True)
    # The native one would be so no longer, had it been added as a tagged one.
    host.add_vlans(port.ifindex, [vid for vid in trunk if vid != native])


def wait_port_up(host: Rtnl, port: Link, bridge: Link, seen: Link | None = None) -> None:
    """Wait until the port forwards, unless it did when it was `seen`.

    Raises CniError (11) where it does not in time, or has lost its bridge.
    """
    risen = seen if seen is not None and is_oper_up(seen) else host.wait_oper_up(port.ifindex, _PORT_SECONDS)
    if risen is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'bridge port "{port.name}" did not come up in {_PORT_SECONDS} s')
    if risen.master != bridge.ifindex:
        message = f'"{port.name}" is no port of "{bridge.name}" any more: the bridge was removed meanwhile'
        raise CniError(Code.TRY_AGAIN_LATER, message)


def check_available(config: BridgeConfig) -> None:
    """Raise CniError (50) if the bridge's name belongs to a link that `ensure_bridge` would refuse."""
    with Rtnl() as host:
        found = host.link(config.bridge)
    if found is None:
        return
    try:
        _usable(found, config)
    except CniError as error:
        raise CniError(Code.NOT_AVAILABLE, error.msg) from None


def _usable(found: Link | None, config: BridgeConfig) -> Link:
    bridge = _required(found, config.bridge)
    if config.filters_vlans and not bridge.vlan_filtering:
        message = f'bridge: "{bridge.name}" has VLAN filtering off, so vlan and vlanTrunk would do nothing'
        raise CniError(Code.INVALID_CONFIG, message)
    return bridge


def _required(found: Link | None, name: str) -> Link:
    if found is None:
        raise CniError(Code.INTERNAL, f'bridge "{name}" is missing')
    if found.kind != "bridge":
        raise CniError(Code.INVALID_CONFIG, f'bridge: "{name}" exists already but is not a bridge')
    return found


def _make_bridge(host: Rtnl, config: BridgeConfig, undo: BridgeUndo) -> Link | None:
    """Make the network's bridge, unless another ADD is faster; return the link of its name."""
    mac = random_mac()
    undo.add(_delete_unused_bridge, host, config.bridge, mac)
    found = find_link(config.bridge)
    undo.made_bridge = host.create_bridge(
        config.bridge, mtu=config.mtu, mac=mac, vlan_filtering=config.filters_vlans, up=True, looks=[found]
    )
    return found.answer


def _refuse_advertised_routes(name: str, undo: BridgeUndo) -> None:
    """Have a bridge take no routes from routers' advertisements, as the reference does for existing ones, too.

    Without IPv6, or with a read-only /proc/sys, all else is done.
    """
    key = f"net/ipv6/conf/{name}/accept_ra"
    try:
        before = read_sysctl(key)
    except OSError:
        return
    if before != "0":
        undo.add(undo.unless_counted_on(_write_if_possible, key, before))
        _write_if_possible(key, "0")


def _write_if_possible(key: str, value: str) -> None:
    with suppress(OSError):
        write_sysctl(key, value)


def _keep_mac(host: Rtnl, before: Link, port: Link, undo: Undo) -> Link:
    """Return a bridge, that was `before` its new `port` came, with a MAC that is set, so that it keeps it.

    A bridge whose MAC nobody has set, such as one of `ip link add`, takes the lowest of its ports', and none when the
    last one goes: the pods would lose their gateway until they ask for it anew. A failing ADD cannot take this back.
    """
    with current_namespace() as here:
        # One at a time: another ADD must not set another MAC between the look and the setting.
        with undo.interruption.waiting():
            fcntl.flock(here.fd, fcntl.LOCK_EX)
        bridge = _required(host.link(before.ifindex), before.name)
        if has_set_mac(bridge.name, bridge.mac):
            return bridge
        mac = bridge.mac
        if mac == port.mac:  # the first port's, which no neighbour knows yet
            mac = random_mac() if before.mac == _NO_MAC else before.mac
        # Neighbours of the bridge are forgotten with it, so this is not done again for each pod.
        host.set_mac(bridge.ifindex, mac)
    return bridge._replace(mac=mac)


def _delete_unused_bridge(host: Rtnl, name: str, mac: str) -> None:
    """Take back the bridge that was made with this MAC, unless another pod has been connected to it meanwhile."""
    bridge = host.link(name)
    if bridge is not None and bridge.mac == mac and not host.links_of(bridge.ifindex):
        host.delete_link(bridge.ifindex)
