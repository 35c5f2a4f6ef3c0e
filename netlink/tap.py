"""Tap interfaces: Ethernet links whose frames a program reads and writes at /dev/net/tun.

Interface: include/uapi/linux/if_tun.h; names are its own.
"""

import errno
import fcntl
import os
import struct

from fast_stdlib.typing import Final
from netlink.namespace import Namespace, entered
from netlink.wire import NetlinkError

_DEVICE = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST, _TUNSETOWNER, _TUNSETGROUP = 0x400454CA, 0x400454CB, 0x400454CC, 0x400454CE
_IFF_TAP, _IFF_MULTI_QUEUE, _IFF_NO_PI, _IFF_TUN_EXCL = 0x0002, 0x0100, 0x1000, 0x8000
_IFREQ: Final = struct.Struct("16sH22x")


def create_tap(
    name: str, namespace: Namespace, *, multi_queue: bool = False, owner: int | None = None, group: int | None = None
) -> bool:
    """Make a persistent tap in `namespace`, down; False, having changed nothing, if a link of that name exists.

    A program opens it by /dev/net/tun: any if both are None, else one of the user ID `owner` or of the group ID
    `group`. `multi_queue`: several programs, or threads, may open it at once. Until the last step the kernel removes
    the tap if the process ends. Raises OSError: ENOENT if the kernel has no driver, and NetlinkError.
    """
    # The file belongs to the network namespace that it is opened in.
    with entered(namespace):
        fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Without the last flag an existing tap would be taken for the new one.
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_TUN_EXCL | (_IFF_MULTI_QUEUE if multi_queue else 0)
        try:
            _set(fd, _TUNSETIFF, _IFREQ.pack(name.encode(), flags), f"create tap {name!r}")
        except NetlinkError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
        if owner is not None:
            _set(fd, _TUNSETOWNER, owner, f"give tap {name!r} to the user {owner}")
        if group is not None:
            _set(fd, _TUNSETGROUP, group, f"give tap {name!r} to the group {group}")
        _set(fd, _TUNSETPERSIST, 1, f"keep tap {name!r}")
    finally:
        os.close(fd)
    return True


def _set(fd: int, request: int, value: bytes | int, doing: str) -> None:
    try:
        fcntl.ioctl(fd, request, value)
    except OSError as error:
        raise NetlinkError(error.errno, f"{doing}: {error.strerror}") from None
