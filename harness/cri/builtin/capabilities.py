"""Capabilities of containers (capabilities(7)): the default set of runtimes, and that of a request."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

ALL: Final = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
"""All capabilities by number (include/uapi/linux/capability.h)."""

_DEFAULT: Final = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
"""The default of containerd (pkg/oci/spec.go, defaultUnixCaps)."""
_STATUS: Final = Path("/proc/thread-self/status")


def capabilities(add: Iterable[str], drop: Iterable[str], *, privileged: bool) -> set[str]:
    """Return names without CAP_, in containerd's order of steps: add ALL, drop ALL, single adds, single drops.

    Raises ValueError for an unknown name.
    """
    known = _known()
    if privileged:
        return known
    added = {name.upper().removeprefix("CAP_") for name in add}
    dropped = {name.upper().removeprefix("CAP_") for name in drop}
    if unknown := (added | dropped) - set(ALL) - {"ALL"}:
        raise ValueError(f'unknown capability "{min(unknown)}"')
    allowed = known if "ALL" in added else set(_DEFAULT)
    if "ALL" in dropped:
        allowed = set()
    return ((allowed | (added - {"ALL"})) - dropped) & known


def dropped_numbers(allowed: set[str]) -> list[int]:
    """Return the numbers of this process's capabilities that are not allowed."""
    known = _known()
    return [number for number, name in enumerate(ALL) if name in known - allowed]


def _known() -> set[str]:
    """Return the capabilities that this process may pass on: a container around it may lack some."""
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    bounding = int(lines["CapBnd"], 16)
    return {name for number, name in enumerate(ALL) if bounding >> number & 1}
