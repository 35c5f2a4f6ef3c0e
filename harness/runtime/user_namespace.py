"""Root's rights without root: a user namespace, and folders in it that nodes and plugins need and only root may write.

Nothing outside of it changes: the folders are views of this process and its children. Files that are made in them are
in memory and end with the process.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.locations import DEFAULT_STATE_DIR
from harness.runtime.node import VAR_LIB_CNI
from harness.runtime.sandbox import NETNS_DIR
from netlink.own_namespaces import enter_user_namespace, mount_writable_view
from netlink.sysctl import read_sysctl

SETTINGS: Final = {
    "user/max_user_namespaces": "0",
    "kernel/unprivileged_userns_clone": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""The kernel parameters that refuse user namespaces, with the value that does: the kernel's, Debian's, Ubuntu's."""
_USERS_RUN: Final = "user"
"""The folder of /run that belongs to users: XDG_RUNTIME_DIR is in it. The rest are services of the machine."""


class UserNamespaceError(Exception):
    """The kernel gives this process no user namespace."""


def become_root() -> None:
    """Make this process root in a user namespace of its own, with /run and /var/lib that it may write.

    Of /run it sees the folders of users. /var/lib is as before, with an empty folder for plugins and one for nodes.
    The process must have one thread. Raises UserNamespaceError.
    """
    try:
        enter_user_namespace()
        run, var_lib = NETNS_DIR.parent, VAR_LIB_CNI.parent
        mount_writable_view(str(run), hidden={path.name for path in run.iterdir()} - {_USERS_RUN})
        mount_writable_view(str(var_lib), hidden={VAR_LIB_CNI.name, DEFAULT_STATE_DIR.name})
    except OSError as error:
        raise UserNamespaceError(_reason(error)) from error
    for folder in (NETNS_DIR, VAR_LIB_CNI, Path("/run/lock")):
        folder.mkdir(mode=0o755)


def refusing_settings(read: Callable[[str], str] = read_sysctl) -> list[str]:
    """Return the kernel parameters that refuse user namespaces, each as "name is value".

    `read` returns the value of a parameter, and raises OSError for one that this kernel lacks.
    """
    refusing = []
    for key, value in SETTINGS.items():
        try:
            found = read(key)
        except OSError:
            continue
        if found == value:
            refusing.append(f"{key.replace('/', '.')} is {value}")
    return refusing


def _reason(error: OSError) -> str:
    if refusing := refusing_settings():
        return ", ".join(refusing)
    if error.errno == errno.ENOSPC:
        return "this user has as many of them as user.max_user_namespaces allows, or they are nested too deep"
    if error.errno == errno.EPERM:
        return f"{error.strerror}; a container's seccomp profile or a security module does so, and a chroot"
    return error.strerror or str(error)
