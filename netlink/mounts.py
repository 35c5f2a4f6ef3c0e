"""A mount namespace of one thread's own, in which some folders are replaced by others."""

from collections.abc import Mapping

from netlink import syscalls

__all__ = ["private_mounts"]


def private_mounts(binds: Mapping[str, str]) -> None:
    """Give the calling thread its own mount namespace, with each source of {target: source} bound over its target.

    The targets and sources must exist. What others mount later (/run/netns/NAME) still arrives here; what is mounted
    here stays here, except under folders that are shared again on purpose (`create_namespace` does). There is no way
    back for the thread; processes and threads it starts are born in the new namespace. The thread also gets its own
    working folder, root and umask (mount namespaces imply CLONE_FS to be unshared). Raises OSError.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", syscalls.MS_SLAVE | syscalls.MS_REC)
    for target, source in binds.items():
        syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)
