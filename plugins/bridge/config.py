"""The configuration of the bridge plugin: every key of the reference plugin's, typed and checked."""

from plugins.attach.interface_config import PairConfig
from skel import CniError, Code, Record, boolean, expected, field, integer_between, interface_name, list_of, record

_VLAN_ID = integer_between(1, 4094, "a VLAN ID")


class VlanTrunk(Record):
    """VLANs that a port carries tagged: a single one, a range, or both."""

    id: int | None = field(_VLAN_ID, default=None)
    min_id: int | None = field(_VLAN_ID, "minID", default=None)
    max_id: int | None = field(_VLAN_ID, "maxID", default=None)


class BridgeConfig(PairConfig):
    """Keys of the reference plugin, with its defaults, and `ipMasqExcept`, `deviceType`."""

    bridge: str = field(interface_name, default="cni0")
    is_gateway: bool = field(boolean, default=False)
    is_default_gateway: bool = field(boolean, default=False)
    force_address: bool = field(boolean, default=False)
    hairpin_mode: bool = field(boolean, default=False)
    promisc_mode: bool = field(boolean, default=False)
    vlan: int = field(integer_between(0, 4094, "a VLAN ID"), default=0)
    vlan_trunk: list[VlanTrunk] = field(list_of(record(VlanTrunk)), default=list)
    preserve_default_vlan: bool = field(boolean, default=False)
    mac_spoof_check: bool = field(boolean, "macspoofchk", default=False, unreadable=True)
    enable_dad: bool = field(boolean, "enabledad", default=False)
    disable_container_interface: bool = field(boolean, default=False)
    port_isolation: bool = field(boolean, default=False)

    @property
    def gateway(self) -> bool:
        """Whether the bridge gets the pods' gateway addresses."""
        return self.is_gateway or self.is_default_gateway

    @property
    def filters_vlans(self) -> bool:
        """Whether the bridge must filter VLANs."""
        return bool(self.vlan or self.vlan_trunk)

    @property
    def native_vlan(self) -> int:
        """The VLAN of frames without a tag: a trunk without `vlan` keeps 1, as with the reference."""
        return self.vlan or 1

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
        super().check_for_add()
        self.trunk_vlans()
        if self.hairpin_mode and self.promisc_mode:
            raise CniError(Code.INVALID_CONFIG, "hairpinMode: true and promiscMode: true exclude each other")
        if self.disable_container_interface and self.ipam.type:
            raise CniError(
                Code.INVALID_CONFIG,
                f'disableContainerInterface: true and ipam.type: "{self.ipam.type}" exclude each other',
            )
