"""Facts about links that only sysfs has."""

import os

from lean import syscalls

__all__ = ["has_set_mac"]

_LINKS = "class/net"
_NET_ADDR_SET = "3"  # include/uapi/linux/netdevice.h


def has_set_mac(name: str, mac: str) -> bool:
    """Tell whether the MAC `mac` of the link `name` was set on purpose; False if that cannot be known.

    A bridge without a MAC of its own has that of one of its ports, or a random one until it has ports.
    """
    link = f"/sys/{_LINKS}/{name}"
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


def _read_own(path: str) -> str:
    """Read a file of the sysfs that shows the calling thread's network namespace."""
    root = syscalls.mount_nowhere("sysfs")
    try:
        return _read(path, root)
    finally:
        os.close(root)


def _read(path: str, root: int | None = None) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    try:
        return os.read(fd, 4096).decode().strip()
    finally:
        os.close(fd)
