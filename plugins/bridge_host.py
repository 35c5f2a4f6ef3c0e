"""The host's side of the bridge plugin: the bridge and the ports of pods.

Each function that takes an `undo` registers on it how to unmake what it made, so
that an ADD that fails later leaves the node as it found it.
"""

import errno
import fcntl
import os
from collections.abc import Collection
from contextlib import suppress

from netlink.namespace import Namespace, current_namespace
from netlink.owner import Owner
from netlink.rtnl import Link, Rtnl
from netlink.socket import NetlinkError
from netlink.sysctl import read_sysctl, write_sysctl
from netlink.sysfs import has_set_mac
from skel import CniError, Code, Undo

from .bridge_config import BridgeConfig
from .bridge_undo import BridgeUndo
from .steps import Steps

__all__ = [
    "bring_up",
    "collect_ports",
    "connect",
    "delete_own",
    "ensure_bridge",
    "random_mac",
    "require_bridge",
    "tag",
    "wait_port_up",
]

_PORT_SECONDS = 2.5
"""How long a port may take to come up; the reference gives it as much."""
_NO_MAC = "00:00:00:00:00:00"


def ensure_bridge(host: Rtnl, config: BridgeConfig, undo: BridgeUndo) -> Link:
    """Return the network's bridge, up, with a MAC that stays; make it where it is not there.

    Raises CniError (7) where the name belongs to something else, NetlinkError.
    """
    found = host.link(config.bridge)
    if found is None:
        _make_bridge(host, config, undo)
        found = host.link(config.bridge)
    bridge = _required(found, config.bridge)
    if config.filters_vlans and not bridge.vlan_filtering:
        message = f'bridge: "{bridge.name}" has VLAN filtering off, so vlan and vlanTrunk would do nothing'
        raise CniError(Code.INVALID_CONFIG, message)
    if config.promisc_mode and not bridge.promiscuous:
        back = undo.unless_counted_on(host.set_promiscuous, bridge.index, on=False)
        undo.add(back)
        host.set_promiscuous(bridge.index, on=True)
    _refuse_advertised_routes(bridge.name, undo)
    bring_up(host, bridge, undo)
    return bridge if has_set_mac(bridge.name, bridge.mac) else _keep_mac(host, bridge.name, undo)


def require_bridge(host: Rtnl, name: str) -> Link:
    """Return the bridge called `name`. Raises CniError (7) where it is missing or no bridge."""
    return _required(host.link(name), name)


def bring_up(host: Rtnl, link: Link, undo: BridgeUndo) -> None:
    """Set the bridge, or the gateway of a VLAN on it, up. Raises NetlinkError."""
    if not link.up:
        back = undo.unless_counted_on(host.set_down, link.index)
        undo.add(back)
        host.set_up(link.index)


def connect(  # noqa: PLR0913 -- what a port is made from, each by its name
    host: Rtnl,
    bridge: Link,
    config: BridgeConfig,
    *,
    name: str,
    port_mac: str = "",
    peer: str,
    namespace: Namespace,
    mac: str = "",
    alias: str = "",
    for_pod: bool = True,
) -> Link:
    """Make a veth pair: `name`, a port of the bridge, and `peer` in `namespace`. Return the port.

    By `port_mac`, one of `random_mac`, the port is known again (see `delete_own`): by nothing else if this fails.

    `hairpinMode` and `portIsolation` are about pods' ports: isolated ones must reach their gateway's. Raises CniError
    where either name is taken: an interface of that name must not exist (SPEC.md section 2, ADD), and NetlinkError.
    """
    try:
        return host.create_veth(
            name,
            peer_name=peer,
            peer_namespace=namespace,
            mtu=config.mtu,
            # udev(7) gives a new link another MAC than the kernel's random one, in its own time, unless one was set.
            mac=port_mac or random_mac(),
            peer_mac=mac,
            master=bridge.index,
            alias=alias,
            hairpin=for_pod and config.hairpin_mode,
            isolated=for_pod and config.port_isolation,
        )
    except NetlinkError as error:
        if error.errno != errno.EEXIST:
            raise
        message = f'cannot connect "{peer}" in {namespace.path} by "{name}": an interface of that name exists already'
        raise CniError(Code.INTERNAL, message) from None


def delete_own(host: Rtnl, name: str, mac: str) -> None:
    """Delete a link if it was made here, with this random MAC; another of that name stays. Raises NetlinkError."""
    link = host.link(name)
    if link is not None and link.mac == mac:
        host.delete_link(link.index)


def tag(host: Rtnl, port: Link, config: BridgeConfig, trunk: list[int]) -> None:
    """Put a port into the configuration's VLANs. Raises NetlinkError."""
    if not config.filters_vlans:
        return
    if not config.preserve_default_vlan:
        for vid in host.vlans(port.index):
            host.delete_vlan(port.index, vid)
    # A trunk without a VLAN of its own keeps 1 as its native one, as the reference has it.
    native = config.vlan or 1
    host.add_vlan(port.index, native, pvid=True, untagged=True)
    # The native one would be so no longer, had it been added as a tagged one.
    host.add_vlans(port.index, [vid for vid in trunk if vid != native])


def wait_port_up(host: Rtnl, port: Link, bridge: Link) -> Link:
    """Return the port once it forwards. Raises CniError (11) where it does not in time, or has lost its bridge."""
    risen = host.wait_oper_up(port.index, _PORT_SECONDS)
    if risen is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'bridge port "{port.name}" did not come up in {_PORT_SECONDS} s')
    if risen.master != bridge.index:
        message = f'"{port.name}" is no port of "{bridge.name}" any more: the bridge was removed meanwhile'
        raise CniError(Code.TRY_AGAIN_LATER, message)
    return risen


def collect_ports(config: BridgeConfig, valid: Collection[Owner]) -> None:
    """Delete the ports of pods of this network that are no longer valid. Raises OSError, CniError."""
    with Rtnl() as host, Steps() as steps:
        bridge = host.link(config.bridge)
        for port in host.links_of(bridge.index) if bridge else ():
            owner = Owner.from_label(port.alias)
            if owner is not None and owner.in_network(config.name) and owner not in valid:
                steps.take(host.delete_link, port.index)


def random_mac() -> str:
    """Return a MAC that is locally administered and no group's (IEEE 802, the two low bits of the first byte)."""
    first, *rest = os.urandom(6)
    return ":".join(f"{byte:02x}" for byte in (first & 0xFC | 0x02, *rest))


def _required(found: Link | None, name: str) -> Link:
    if found is None:
        raise CniError(Code.INTERNAL, f'bridge "{name}" is missing')
    if found.kind != "bridge":
        raise CniError(Code.INVALID_CONFIG, f'bridge: "{name}" exists already but is not a bridge')
    return found


def _make_bridge(host: Rtnl, config: BridgeConfig, undo: Undo) -> None:
    """Make the network's bridge, unless another ADD is faster."""
    mac = random_mac()
    undo.add(_delete_unused_bridge, host, config.bridge, mac)
    host.create_bridge(config.bridge, mtu=config.mtu, mac=mac, vlan_filtering=config.filters_vlans)


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


def _keep_mac(host: Rtnl, name: str, undo: Undo) -> Link:
    """Return the bridge `name` with the MAC that it has, set, so that it keeps it.

    A bridge whose MAC nobody has set, such as one of `ip link add`, takes the lowest of its ports', and none when the
    last one goes: the pods would lose their gateway until they ask for it anew. A failing ADD cannot take this back.
    """
    with current_namespace() as here:
        # One at a time: another ADD must neither set another MAC nor connect a port between the look and the setting.
        with undo.interruption.waiting():
            fcntl.flock(here.fd, fcntl.LOCK_EX)
        bridge = require_bridge(host, name)
        if has_set_mac(name, bridge.mac):
            return bridge
        mac = bridge.mac if bridge.mac != _NO_MAC else random_mac()
        # Before the first port of ours, which the MAC would follow. Neighbours of the bridge are forgotten with it, so
        # this is not done again for each pod.
        host.set_mac(bridge.index, mac)
    return bridge._replace(mac=mac)


def _delete_unused_bridge(host: Rtnl, name: str, mac: str) -> None:
    """Take back the bridge that was made with this MAC, unless another pod has been connected to it meanwhile."""
    bridge = host.link(name)
    if bridge is not None and bridge.mac == mac and not host.links_of(bridge.index):
        host.delete_link(bridge.index)
