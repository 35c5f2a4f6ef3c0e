"""The configuration of the bridge plugin: every key of the reference plugin's, typed and checked."""

from collections.abc import Mapping

from skel import (
    UNKNOWN,
    CniError,
    Code,
    Config,
    Record,
    boolean,
    choice,
    expected,
    field,
    integer_between,
    interface_name,
    list_of,
    mac,
    optional,
    record,
    string,
)

__all__ = ["BridgeConfig", "mtu"]

_VLAN_ID = integer_between(1, 4094, "a VLAN ID")
_MTU_MIN, _MTU_MAX = 68, 65535


def mtu(value: object, path: str) -> int:
    """Read an MTU in bytes; 0 leaves it to the kernel. The bounds are the kernel's for Ethernet devices."""
    size = integer_between(0, _MTU_MAX, "an MTU in bytes")(value, path)
    if 0 < size < _MTU_MIN:
        raise expected(f"0 or an MTU of at least {_MTU_MIN} bytes", value, path)
    return size


class VlanTrunk(Record):
    """VLANs that a port carries tagged: a single one, a range, or both."""

    id: int | None = field(_VLAN_ID, default=None)
    min_id: int | None = field(_VLAN_ID, "minID", default=None)
    max_id: int | None = field(_VLAN_ID, "maxID", default=None)


class _Mac(Record):
    # Any string: it comes with a single pod, and the DEL that follows a refused ADD must not fail for it.
    mac: str = field(string, default="")


class _Args(Record):
    cni: _Mac = field(record(_Mac), default=_Mac)


class BridgeConfig(Config):
    """Keys of the reference plugin, with its defaults; `mtu` is in bytes."""

    bridge: str = field(interface_name, default="cni0", unreadable=UNKNOWN)
    is_gateway: bool = field(boolean, default=False)
    is_default_gateway: bool = field(boolean, default=False)
    force_address: bool = field(boolean, default=False)
    # DEL looks for what either may have been.
    ip_masq: bool = field(boolean, default=False, unreadable=True)
    ip_masq_backend: str | None = field(optional(choice("nftables", "iptables")), default=None)
    mtu: int = field(mtu, default=0)
    hairpin_mode: bool = field(boolean, default=False)
    promisc_mode: bool = field(boolean, default=False)
    vlan: int = field(integer_between(0, 4094, "a VLAN ID"), default=0)
    vlan_trunk: list[VlanTrunk] = field(list_of(record(VlanTrunk)), default=list)
    preserve_default_vlan: bool = field(boolean, default=False)
    mac_spoof_check: bool = field(boolean, "macspoofchk", default=False, unreadable=True)
    enable_dad: bool = field(boolean, "enabledad", default=False)
    disable_container_interface: bool = field(boolean, default=False)
    port_isolation: bool = field(boolean, default=False)
    args: _Args = field(record(_Args), default=_Args)
    runtime_config: _Mac = field(record(_Mac), default=_Mac)

    @property
    def gateway(self) -> bool:
        """Whether the bridge gets the pods' gateway addresses."""
        return self.is_gateway or self.is_default_gateway

    @property
    def filters_vlans(self) -> bool:
        """Whether the bridge must filter VLANs."""
        return bool(self.vlan or self.vlan_trunk)

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return the MAC that the pod's interface must get, or nothing; the capability counts first.

        Raises CniError for one that is none: 7, or 4 where it is in CNI_ARGS.
        """
        for asked, path in ((self.runtime_config.mac, "runtimeConfig.mac"), (self.args.cni.mac, "args.cni.mac")):
            if asked:
                return mac(asked, path)
        if not cni_args.get("MAC"):
            return ""
        try:
            return mac(cni_args["MAC"], "CNI_ARGS: MAC")
        except CniError as error:
            raise CniError(Code.INVALID_ENVIRONMENT, error.msg) from None

    def trunk_vlans(self) -> list[int]:
        """Return the VLAN IDs of `vlanTrunk`, sorted. Raises CniError (7) for half a range."""
        vlans: set[int] = set()
        for index, trunk in enumerate(self.vlan_trunk):
            if trunk.id is not None:
                vlans.add(trunk.id)
            if trunk.min_id is not None and trunk.max_id is not None and trunk.min_id <= trunk.max_id:
                vlans.update(range(trunk.min_id, trunk.max_id + 1))
            elif trunk.min_id is not None or trunk.max_id is not None:
                raise expected("minID and maxID together, in order", trunk.encode(), f"vlanTrunk[{index}]")
        return sorted(vlans)

    def check_for_add(self) -> None:
        """Raise CniError (7) for keys that contradict each other."""
        self.trunk_vlans()
        if self.hairpin_mode and self.promisc_mode:
            raise CniError(Code.INVALID_CONFIG, "hairpinMode: true and promiscMode: true exclude each other")
        if self.disable_container_interface and self.ipam.type:
            raise CniError(
                Code.INVALID_CONFIG,
                f'disableContainerInterface: true and ipam.type: "{self.ipam.type}" exclude each other',
            )
