"""Finding the host's interface that a configuration names."""

from fast_stdlib.typing import TYPE_CHECKING
from skel import CniError, Code

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.rtnl import Rtnl
    from plugins.host_device.config import WantedDevice

_PCI, _AUXILIARY = "bus/pci/devices", "bus/auxiliary/devices"
_USER_SPACE_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})
"""Drivers that hand a device to a program, as DPDK needs it: the kernel has no interface for it."""


def bus_path(wanted: "WantedDevice") -> str:
    """Return the folder below /sys of a device that is named by its address; "" for another key.

    Raises CniError (7) if it is missing.
    """
    from netlink.sysfs import has_device

    if wanted.key == "pciBusID":
        buses = {_PCI: "PCI"}
    elif wanted.key == "runtimeConfig.deviceID":
        buses = {_PCI: "PCI", _AUXILIARY: "auxiliary"}
    else:
        return ""
    for bus in buses:
        if has_device(f"{bus}/{wanted.value}"):
            return f"{bus}/{wanted.value}"
    raise CniError(
        Code.INVALID_CONFIG, f'{wanted.key}: there is no {" or ".join(buses.values())} device "{wanted.value}"'
    )


def is_for_user_space(wanted: "WantedDevice") -> bool:
    """Tell whether a program drives the device, and the kernel has no interface for it. Raises CniError (7)."""
    from netlink.sysfs import driver_of

    path = bus_path(wanted)
    return path.startswith(_PCI) and driver_of(path) in _USER_SPACE_DRIVERS


def find_device(host: "Rtnl", wanted: "WantedDevice") -> "Link | None":
    """Return the host's interface, None if it has none. Raises CniError (7) for a missing PCI device, and OSError.

    Of a device with several interfaces it is the first by name.
    """
    from netlink.sysfs import links_at, virtio_devices_of

    if wanted.key == "device":
        return host.link(wanted.value)
    if wanted.key == "hwaddr":
        return next((link for link in host.links() if link.mac == wanted.value), None)
    path = bus_path(wanted) or wanted.value.removeprefix("/sys/")
    names = links_at(path)
    if not names and path.startswith(_PCI):
        names = [name for device in virtio_devices_of(path) for name in links_at(device)]
    return host.link(names[0]) if names else None
