"""A user namespace of the calling process's own, in which its user has root's rights over what it makes there."""

import os

from lean import syscalls

# include/uapi/linux/capability.h
_CAP_NET_ADMIN = 12
_CAP_SYS_CHROOT = 18
_CAP_SYS_ADMIN = 21
_NEEDED = 1 << _CAP_NET_ADMIN | 1 << _CAP_SYS_CHROOT | 1 << _CAP_SYS_ADMIN
_ALL_USERS = ["0", "0", "4294967295"]
"""The map of user IDs of the machine's first user namespace: inside, outside, count."""


def has_capabilities() -> bool:
    """Tell whether this process may make network namespaces and configure them (capabilities(7)). Raises OSError."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return int(effective, 16) & _NEEDED == _NEEDED


def in_user_namespace() -> bool:
    """Tell whether this process is in another user namespace than the machine's first one. Raises OSError."""
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        return lines.readline().split() != _ALL_USERS


def enter_user_namespace() -> None:
    """Move this process into a new user namespace, with new mount and network namespaces that belong to it.

    Its user and group become root there, and are the only ones (user_namespaces(7)). The process must have one thread.
    Raises OSError: EINVAL with several threads or without kernel support, ENOSPC for user.max_user_namespaces.
    """
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
    # In this order: the kernel lets an unprivileged process map its group only without setgroups(2).
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
