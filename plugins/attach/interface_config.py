"""The configuration keys that interface plugins share, with the reference's names and defaults."""

import os

from fast_stdlib.typing import Mapping
from skel import (
    CniError,
    Code,
    Config,
    Network,
    Record,
    boolean,
    choice,
    expected,
    field,
    integer_between,
    list_of,
    mac,
    network,
    optional,
    record,
    string,
)

AUTO = -1
"""`mtu: "auto"`: the MTU of the path that the pod's packets take (`Driver.path_mtu`)."""
MTU_MIN, _MTU_MAX = 68, 65535
_ENCAPSULATIONS = ("vxlan", "geneve", "wireguard", "ipip")


def mtu(value: object, path: str) -> int:
    """Read an MTU in bytes; 0 leaves it to the kernel. The bounds are the kernel's for Ethernet devices."""
    size = integer_between(0, _MTU_MAX, "an MTU in bytes")(value, path)
    if 0 < size < MTU_MIN:
        raise expected(f"0 or an MTU of at least {MTU_MIN} bytes", value, path)
    return size


def mtu_or_auto(value: object, path: str) -> int:
    """Read an MTU in bytes, or AUTO."""
    if value == "auto":
        return AUTO
    if isinstance(value, str):
        raise expected('"auto" or an MTU in bytes', value, path)
    return mtu(value, path)


def mtu_overhead(value: object, path: str) -> int | str:
    """Read the bytes that an overlay adds to a packet, or the name of its encapsulation."""
    if isinstance(value, str) and value in _ENCAPSULATIONS:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MTU_MAX:
        names = ", ".join(f'"{name}"' for name in _ENCAPSULATIONS)
        raise expected(f"a number of bytes from 0 to {_MTU_MAX}, or one of {names}", value, path)
    return value


def exception(value: object, path: str) -> Network:
    """Read a network that pods reach with their own addresses. All addresses would be no masquerading at all."""
    found = network(value, path)
    if not found.prefixlen:
        raise expected("a CIDR with a prefix length of at least 1", value, path)
    return found


class _Mac(Record):
    # Any string is decoded: a MAC belongs to one pod, and DEL must not fail for one that ADD rejected.
    mac: str = field(string, default="")


class RuntimeConfig(_Mac):
    """The capabilities of every interface plugin."""


class _Args(Record):
    cni: _Mac = field(record(_Mac), default=_Mac)


class InterfaceConfig(Config):
    """The keys of every interface plugin; `mtu` is in bytes."""

    mtu: int = field(mtu, default=0)
    args: _Args = field(record(_Args), default=_Args)
    runtime_config: RuntimeConfig = field(record(RuntimeConfig), default=RuntimeConfig)

    def check_for_add(self) -> None:
        """Raise CniError (7) for keys that contradict each other: called by ADD and STATUS, before any change."""

    def requested_mac(self, cni_args: Mapping[str, str]) -> str:
        """Return the MAC that the pod's interface must get, or "".

        The capability (`runtimeConfig.mac`) counts first, then `args.cni.mac`, then MAC of CNI_ARGS.
        Raises CniError for an invalid MAC: 4 if it is in CNI_ARGS, else 7.
        """
        for asked, path in ((self.runtime_config.mac, "runtimeConfig.mac"), (self.args.cni.mac, "args.cni.mac")):
            if asked:
                return mac(asked, path)
        return mac_of_cni_args(cni_args)


class AutoMtuConfig(InterfaceConfig):
    """The keys of interface plugins that know `mtu: "auto"`."""

    mtu: int = field(mtu_or_auto, default=0)
    mtu_overhead: int | str = field(mtu_overhead, default=0)

    def check_for_add(self) -> None:
        """Raise CniError (7) for an overhead without `mtu: "auto"`."""
        if self.mtu_overhead and self.mtu != AUTO:
            raise CniError(Code.INVALID_CONFIG, f'mtuOverhead: it needs mtu: "auto", got mtu: {self.mtu}')


class MasqueradeConfig(AutoMtuConfig):
    """The keys of interface plugins whose pods reach the network through the host's routing."""

    # If DEL cannot read the key, it removes masquerading all the same.
    ip_masq: bool = field(boolean, default=False, unreadable=True)
    ip_masq_backend: str | None = field(optional(choice("nftables", "iptables")), default=None)
    ip_masq_except: list[Network] = field(list_of(exception), default=list)
    """Destinations that are not masqueraded."""


class PairConfig(MasqueradeConfig):
    """The keys of interface plugins that connect the pod by a pair of links."""

    device_type: str | None = field(optional(choice("veth", "netkit")), default=None)
    """None: veth."""


def mac_of_cni_args(cni_args: Mapping[str, str]) -> str:
    """Return MAC of CNI_ARGS, or "". Raises CniError (4)."""
    if not cni_args.get("MAC"):
        return ""
    try:
        return mac(cni_args["MAC"], "CNI_ARGS: MAC")
    except CniError as error:
        raise CniError(Code.INVALID_ENVIRONMENT, error.msg) from None


def random_mac(above: str = "") -> str:
    """Return a MAC that is locally administered and unicast (IEEE 802, the two low bits of the first byte).

    It is higher than `above`, unless that is among the very highest. A bridge without a MAC of its own takes the lowest
    of its ports', so a higher one leaves the bridge's unchanged.
    """
    octets = bytearray(os.urandom(6))
    octets[0] = octets[0] & 0xFC | 0x02
    lowest = bytes.fromhex(above.replace(":", ""))
    if octets <= lowest:
        octets[0] = 0xFE
    if octets <= lowest:
        octets[1] = 0xFF
    return octets.hex(":")
