"""The rights with which a run makes its nodes: root's, or root's in a user namespace, and the limits of the latter."""

import os
from collections.abc import Sequence
from typing import Final

from harness.libcni.execute import Execution
from netlink.user_namespace import in_user_namespace

_REFUSALS: Final = ("operation not permitted", "permission denied")
"""EPERM and EACCES in the words of C libraries, and of Go in lower case (errno(3))."""
_QUOTED: Final = 300


def privileges() -> str:
    """Return how this process came to its rights: "root", "sudo" or "user namespace". Raises OSError."""
    if in_user_namespace():
        return "user namespace"
    return "sudo" if os.environ.get("SUDO_UID") else "root"


def lacking_root(executions: Sequence[Execution]) -> str:
    """Return the words of a failed execution that the kernel has refused something in a user namespace; empty for none.

    Such a plugin may be sound: it may set a kernel parameter of the whole machine, or give a file to another user.
    """
    if not in_user_namespace():
        return ""
    failed = (each for each in executions if each.exit_code != 0)
    said = ((each.stdout + b" " + each.stderr).decode(errors="replace") for each in failed)
    return next(
        (" ".join(text.split())[:_QUOTED] for text in said if any(map(text.lower().__contains__, _REFUSALS))), ""
    )
