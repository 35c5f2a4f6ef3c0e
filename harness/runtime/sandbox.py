"""Sandboxes: the network namespaces of pods, named and mounted as containerd does."""

import uuid
from pathlib import Path
from typing import Final

from harness.runtime.fixed_sysctls import fix_sysctls
from netlink.namespace import NotANamespaceError, create_namespace, open_namespace, remove_namespace

NETNS_DIR: Final = Path("/run/netns")


def new_sandbox_path() -> str:
    """Return a path for a sandbox that does not exist yet: `/run/netns/cni-<uuid>`, containerd's form."""
    return str(NETNS_DIR / f"cni-{uuid.uuid4()}")


def create_sandbox(path: str, *, fixed: bool) -> None:
    """Make the network namespace at `path`, with `lo` up. Raises FileExistsError, OSError; then nothing is left.

    `fixed` gives it the kernel parameters of a node under test. Without `fixed` they come from the machine, as in a pod
    of a real runtime.
    """
    create_namespace(path)
    if not fixed:
        return
    try:
        fix_sysctls(path)
    except BaseException:
        remove_namespace(path)
        raise


def sandbox_exists(path: str) -> bool:
    """Tell whether `path` is a network namespace: after a reboot or a crash it may be a plain file, or missing."""
    try:
        open_namespace(path).close()
    except (FileNotFoundError, NotANamespaceError):
        return False
    return True
