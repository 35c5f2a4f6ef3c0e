"""Sandboxes: the network namespaces of pods, named and held as containerd does."""

import uuid
from pathlib import Path
from typing import Final

from harness.runtime.fixed_sysctls import fix_sysctls
from netlink.namespace import NotANamespaceError, create_namespace, open_namespace, remove_namespace

__all__ = ["NETNS_DIR", "create_sandbox", "new_sandbox_path", "remove_sandbox", "sandbox_exists"]

NETNS_DIR: Final = Path("/run/netns")


def new_sandbox_path() -> str:
    """Return a path for a sandbox that does not exist yet: `/run/netns/cni-<uuid>`, containerd's form."""
    return str(NETNS_DIR / f"cni-{uuid.uuid4()}")


def create_sandbox(path: str, *, fixed: bool) -> None:
    """Make the network namespace at `path`, with `lo` up. Raises FileExistsError, OSError having left nothing.

    `fixed` gives it the kernel parameters of a node under test. Without it they come from the machine, as in a pod of a
    real runtime.
    """
    create_namespace(path)
    if not fixed:
        return
    try:
        fix_sysctls(path)
    except BaseException:
        remove_namespace(path)
        raise


def remove_sandbox(path: str) -> bool:
    """Remove the network namespace at `path` and whatever is left there; False when nothing was. Raises OSError."""
    return remove_namespace(path)


def sandbox_exists(path: str) -> bool:
    """Tell whether there is a network namespace at `path`: after a reboot, or half-way made, there is not."""
    try:
        open_namespace(path).close()
    except (FileNotFoundError, NotANamespaceError):
        return False
    return True
