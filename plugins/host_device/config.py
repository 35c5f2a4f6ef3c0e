"""The configuration of host-device: one key that says which interface it is."""

from fast_stdlib.typing import NamedTuple
from plugins.attach.interface_config import InterfaceConfig, RuntimeConfig
from skel import CniError, Code, expected, field, mac, optional, record, string

DEVICES = "/sys/devices/"
_KEYS = "device", "hwaddr", "kernelpath", "pciBusID"
_DEVICE_ID = "runtimeConfig.deviceID"
_HARDWARE_SIZES = 8, 20
"""Bytes in the hardware addresses of FireWire and InfiniBand; those of Ethernet have 6."""
_HEX = frozenset("0123456789abcdef")


class WantedDevice(NamedTuple):
    """The device that an attachment must get: the key of the configuration, and its value."""

    key: str
    value: str


def hardware_address(value: object, path: str) -> str:
    """Read a hardware address of 6, 8 or 20 bytes; returned in lower case with colons."""
    text = value.lower().replace("-", ":") if isinstance(value, str) else ""
    groups = text.split(":")
    if len(groups) in _HARDWARE_SIZES and all(len(group) == 2 and _HEX.issuperset(group) for group in groups):  # noqa: PLR2004 -- digits of a byte
        return text
    return mac(value, path)


def kernel_path(value: object, path: str) -> str:
    """Read the path of a device below /sys/devices."""
    text = string(value, path)
    if not text.startswith(DEVICES) or ".." in text.split("/"):
        raise expected(f"a path below {DEVICES}", value, path)
    return text.rstrip("/")


def bus_address(value: object, path: str) -> str:
    """Read the name of a device on its bus, such as "0000:3b:02.1"; it is the name of a folder."""
    text = string(value, path)
    if "/" in text or text in {".", ".."} or not text.isprintable():
        raise expected("the address of a PCI device", value, path)
    return text


class _RuntimeConfig(RuntimeConfig):
    # Any string is decoded: a device belongs to one pod, and DEL must not fail for one that ADD rejected.
    device_id: str = field(string, "deviceID", default="")


class HostDeviceConfig(InterfaceConfig):
    """Keys of the reference plugin, and `mtu`."""

    device: str | None = field(optional(string), default=None)
    hwaddr: str | None = field(optional(hardware_address), default=None)
    kernelpath: str | None = field(optional(kernel_path), default=None)
    pci_bus_id: str | None = field(optional(bus_address), "pciBusID", default=None)
    runtime_config: _RuntimeConfig = field(record(_RuntimeConfig), default=_RuntimeConfig)

    def check_for_add(self) -> None:
        """Raise CniError (7) if several keys name a device."""
        given = self._given()
        if len(given) > 1:
            named = ", ".join(f'{each.key} "{each.value}"' for each in given)
            raise CniError(Code.INVALID_CONFIG, f"one key only may name the device, got {named}")

    @property
    def wanted(self) -> WantedDevice | None:
        """The key that names the device; None if there is none.

        `deviceID` takes the place of `pciBusID`. Raises CniError (7) for a name that is not fit for a folder.
        """
        given = self._given()
        if not given:
            return None
        if given[0].key == _DEVICE_ID:
            bus_address(given[0].value, _DEVICE_ID)
        return given[0]

    def require_wanted(self) -> WantedDevice:
        """Return the key that names the device. Raises CniError (7) if there is none."""
        wanted = self.wanted
        if wanted is None:
            named = ", ".join((*_KEYS, _DEVICE_ID))
            raise CniError(Code.INVALID_CONFIG, f"no key names the device; one of these is required: {named}")
        return wanted

    def _given(self) -> list[WantedDevice]:
        device_id = self.runtime_config.device_id
        values = (self.device, self.hwaddr, self.kernelpath, None if device_id else self.pci_bus_id, device_id)
        return [WantedDevice(key, value) for key, value in zip((*_KEYS, _DEVICE_ID), values, strict=True) if value]
