"""The host's side of the bridge plugin: the bridge and the ports of pods, and the undo of changes to them.

A function that takes an `undo` registers the inverse of each of its changes on it, before the change. Other pods share
the bridge, so a failing ADD undoes less of it than of its own links.
"""

import fcntl

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Collection, NamedTuple, ParamSpec
from firewall.owner import Owner
from netlink.addresses import Address, list_addresses
from netlink.link import Link, find_fdb_owner, find_link
from netlink.namespace import Namespace, current_namespace
from netlink.rtnl import Rtnl
from netlink.sysctl import read_sysctl, write_sysctl
from netlink.sysfs import has_set_mac
from plugins.attach.host_veth import make_pair
from plugins.attach.interface_config import random_mac
from plugins.bridge.config import BridgeConfig
from skel import CniError, Code, Interruption, Undo

P = ParamSpec("P")

_NO_MAC = "00:00:00:00:00:00"


class BridgeUndo(Undo):
    """An `Undo` that keeps a change of the bridge if another pod may rely on it by now.

    A pod may rely on it if its port came after the change. So may one with an earlier port and an alias of ours:
    nothing tells whether its ADD has ended. Other earlier ports (an uplink, a pod of the reference) worked without the
    change.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        host: Rtnl,
        bridge: str,
        own_port: str,
        interruption: Interruption | None = None,
    ) -> None:
        super().__init__(log, interruption)
        self.own_ports = {own_port}
        """The names of the ports that this ADD makes."""
        self.made_bridge = False
        """Whether this ADD has made the bridge, which had no ports then."""
        self._host = host
        self._bridge = bridge

    def add_shared(self, inverse: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> Callable[[], object]:
        """Register the inverse of the next change, as `add` does; it does nothing if another pod relies on the change.

        Raises NetlinkError.
        """
        ports = [] if self.made_bridge else self._ports()
        others = {port.name for port in ports if Owner.from_label(port.alias) is None}

        def take_back() -> None:
            if not self._is_relied_on(others):
                inverse(*args, **kwargs)

        return self.add(take_back)

    def _is_relied_on(self, others: Collection[str]) -> bool:
        return any(port.name not in others and port.name not in self.own_ports for port in self._ports())

    def _ports(self) -> list[Link]:
        bridge = self._host.link(self._bridge)
        return self._host.links_of(bridge.ifindex) if bridge else []


class Connected(NamedTuple):
    """A bridge and its new port, as they were last seen."""

    bridge: Link
    port: Link
    addresses: list[Address]
    """Of the bridge."""


def ensure_bridge(host: Rtnl, config: BridgeConfig, undo: BridgeUndo, *, mac: str = "") -> Link:
    """Return the network's bridge, up; make it if it is missing, with `mac` or a random one. `connect` keeps its MAC.

    Raises CniError (7) if the name belongs to another kind of link or VLAN filtering is off, and NetlinkError.
    """
    found = host.link(config.bridge)
    if found is None:
        found = _make_bridge(host, config, undo, mac or random_mac())
    bridge = _usable(found, config)
    if config.promisc_mode and not bridge.promiscuous:
        undo.add_shared(host.set_promiscuous, bridge.ifindex, on=False)
        host.set_promiscuous(bridge.ifindex, on=True)
    if bridge.accepts_ra:
        _refuse_advertised_routes(bridge.name, undo)
    bring_up(host, bridge, undo)
    return bridge


def require_bridge(host: Rtnl, name: str) -> Link:
    """Return the bridge called `name`. Raises CniError: 999 if it is missing, 7 if it is no bridge."""
    return _required(host.link(name), name)


def bring_up(host: Rtnl, link: Link, undo: BridgeUndo) -> None:
    """Set the bridge, or the gateway of a VLAN on it, up. Raises NetlinkError."""
    if not link.up:
        undo.add_shared(host.set_down, link.ifindex)
        host.set_up(link.ifindex)


def connect(  # noqa: PLR0913 -- the properties of a port, each by its name
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
    """Make a pair: `name`, a port of the bridge, and `peer` in `namespace`.

    `port_mac` comes from `random_mac` above the bridge's MAC; `delete_own` knows the port by it, should this fail.
    Without `port_mac` and `mac` they are random.

    `deviceType`, `hairpinMode` and `portIsolation` apply to pods' ports alone: isolated ports must reach their
    gateway's. Raises CniError if either name is taken, and NetlinkError.
    """
    owner = find_fdb_owner(bridge.ifindex, bridge.mac)
    now = find_link(bridge.ifindex)
    present = list_addresses(bridge.ifindex)
    port = make_pair(
        lambda kind: host.create_veth(
            name,
            kind=kind,
            peer_name=peer,
            peer_namespace=namespace,
            mac=port_mac or random_mac(above=bridge.mac),
            peer_mac=mac or random_mac(),
            mtu=config.mtu,
            master=bridge.ifindex,
            alias=alias,
            hairpin=for_pod and config.hairpin_mode,
            isolated=for_pod and config.port_isolation,
            looks=(owner, now, present),
        ),
        config.device_type if for_pod else None,
        undo.log,
        name=name,
        peer=peer,
        namespace=namespace,
    )
    joined = _required(now.answer, bridge.name)  # with the MTU that it may have taken from the port
    # The bridge may lack a MAC of its own: then it has just taken another, or its MAC is one of its ports'.
    if joined.mac != bridge.mac or owner.answer != bridge.ifindex:
        joined = keep_mac(host, bridge, port, undo)
    return Connected(joined, port, present.answer)


def tag(host: Rtnl, port: Link, config: BridgeConfig, trunk: list[int]) -> None:
    """Put a port into the configuration's VLANs. Raises NetlinkError."""
    if not config.filters_vlans:
        return
    if not config.preserve_default_vlan:
        for vid in host.vlans(port.ifindex).passed:
            host.delete_vlan(port.ifindex, vid)
    native = config.native_vlan
    host.add_vlan(port.ifindex, native, pvid=True, untagged=True)
    # Adding the native VLAN again, as a tagged one, would make it tagged.
    host.add_vlans(port.ifindex, [vid for vid in trunk if vid != native])


def missing_vlans(host: Rtnl, port: Link, config: BridgeConfig, trunk: list[int]) -> list[int]:
    """Return the VLANs of the configuration that a port lacks, or has for tagged frames only. Raises NetlinkError."""
    passed, native = host.vlans(port.ifindex)
    lost_native = bool(config.vlan) and native != config.vlan
    return sorted({config.native_vlan, *trunk} - {*passed} | ({config.vlan} if lost_native else set()))


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
    if config.filters_vlans and not bridge.details.vlan_filtering:
        message = f'bridge: "{bridge.name}" has VLAN filtering off, so vlan and vlanTrunk would do nothing'
        raise CniError(Code.INVALID_CONFIG, message)
    return bridge


def _required(found: Link | None, name: str) -> Link:
    if found is None:
        raise CniError(Code.INTERNAL, f'bridge "{name}" is missing')
    if found.kind != "bridge":
        raise CniError(Code.INVALID_CONFIG, f'bridge: "{name}" exists already but is not a bridge')
    return found


def _make_bridge(host: Rtnl, config: BridgeConfig, undo: BridgeUndo, mac: str) -> Link | None:
    """Make the network's bridge, unless another ADD is faster; return the link of its name."""
    undo.add(_delete_unused_bridge, host, config.bridge, mac)
    found = find_link(config.bridge)
    undo.made_bridge = host.create_bridge(
        config.bridge, mtu=config.mtu, mac=mac, vlan_filtering=config.filters_vlans, up=True, looks=[found]
    )
    return found.answer


def _refuse_advertised_routes(name: str, undo: BridgeUndo) -> None:
    """Turn routes from router advertisements off on a bridge, as the reference does, for existing bridges too.

    A kernel without IPv6 and a read-only /proc/sys are no errors: the network works without it.
    """
    key = f"net/ipv6/conf/{name}/accept_ra"
    try:
        before = read_sysctl(key)
    except OSError:
        return
    if before != "0":
        undo.add_shared(_write_if_possible, key, before)
        _write_if_possible(key, "0")


def _write_if_possible(key: str, value: str) -> None:
    with suppress(OSError):
        write_sysctl(key, value)


def keep_mac(host: Rtnl, before: Link, port: Link, undo: Undo) -> Link:
    """Return the bridge with its MAC set, so that it keeps it; `before` is the bridge before it got `port`.

    A bridge whose MAC nobody has set, such as one of `ip link add`, takes the lowest of its ports', and loses it with
    the last of them. Pods would then lose their gateway until they ask for its MAC again. A failing ADD cannot undo
    the setting.
    """
    with current_namespace() as here:
        # One ADD at a time: another must not set its MAC between this look-up and this setting.
        with undo.interruption.waiting():
            fcntl.flock(here.fd, fcntl.LOCK_EX)
        bridge = _required(host.link(before.ifindex), before.name)
        if has_set_mac(bridge.name, bridge.mac):
            return bridge
        mac = bridge.mac
        if mac == port.mac:  # that of the new port: no neighbour knows it yet
            mac = random_mac() if before.mac == _NO_MAC else before.mac
        # Setting a MAC flushes the bridge's neighbours, so it is done once and not for each pod.
        host.set_mac(bridge.ifindex, mac)
    return bridge._replace(mac=mac)


def _delete_unused_bridge(host: Rtnl, name: str, mac: str) -> None:
    """Delete the bridge if it was made with this MAC, unless another pod's port has joined it meanwhile."""
    bridge = host.link(name)
    if bridge is not None and bridge.mac == mac and not host.links_of(bridge.ifindex):
        host.delete_link(bridge.ifindex)
