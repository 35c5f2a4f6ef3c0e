"""Facts about links that only sysfs has."""

import os

from fast_stdlib import syscalls
from fast_stdlib.contextlib import contextmanager, suppress
from fast_stdlib.typing import Iterator

_SYS = "/sys"
_LINKS = "class/net"
_NET_ADDR_SET = "3"  # include/uapi/linux/netdevice.h


def has_set_mac(name: str, mac: str) -> bool:
    """Tell whether the MAC `mac` of the link `name` was set on purpose; False if that cannot be known.

    A bridge without a MAC of its own has that of one of its ports, or a random one until it has ports.
    """
    link = f"{_SYS}/{_LINKS}/{name}"
    try:
        # /sys shows the namespace that it was mounted in: as a rule, but not always, the calling thread's.
        if _read(f"{link}/address") == mac:
            return _read(f"{link}/addr_assign_type") == _NET_ADDR_SET
    except OSError:
        pass
    try:
        return _read_own(f"{_LINKS}/{name}/addr_assign_type") == _NET_ADDR_SET
    except OSError:
        return False


def links_at(path: str) -> list[str]:
    """Return the names of the links of the device at `path`, sorted; `path` is below /sys, such as "bus/pci/devices/…".

    Of the calling thread's network namespace alone. Empty if there are none, or no such device.
    """
    return _listed(f"{path}/net")


def virtio_devices_of(path: str) -> list[str]:
    """Return the paths of the virtio devices of the device at `path`: their links are not the device's own."""
    return [f"{path}/{name}" for name in _listed(path) if name.startswith("virtio")]


def has_device(path: str) -> bool:
    """Tell whether there is a device at `path`, which is below /sys."""
    return os.path.exists(f"{_SYS}/{path}")


def driver_of(path: str) -> str:
    """Return the name of the driver of the device at `path`, which is below /sys; "" if it has none."""
    with suppress(OSError):
        return os.path.basename(os.readlink(f"{_SYS}/{path}/driver"))
    return ""


def _listed(path: str) -> list[str]:
    with _own_root() as root:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
        except OSError:
            return []
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def _read_own(path: str) -> str:
    """Read a file of the sysfs that shows the calling thread's network namespace."""
    with _own_root() as root:
        return _read(path, root)


@contextmanager
def _own_root() -> Iterator[int]:
    """Lend the root of the sysfs that shows the calling thread's network namespace. Raises OSError."""
    root = syscalls.mount_nowhere("sysfs")
    try:
        yield root
    finally:
        os.close(root)


def _read(path: str, root: int | None = None) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    try:
        return os.read(fd, 4096).decode().strip()
    finally:
        os.close(fd)
