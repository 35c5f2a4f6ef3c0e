"""Kernel parameters below net. of the thread's network namespace (Documentation/networking/ip-sysctl.rst)."""

import os
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, TypeAlias

from harness.snapshot.state import Things

_ROOT: Final = "/proc/sys/net"
_READABLE: Final = 0o444
_WRITABLE: Final = 0o222
_USUAL: Final = 1024
"""Bytes. The kernel clears a buffer of the size that is asked for, so a small one saves a fifth of the time."""
_LONGEST: Final = 65536

_PER_LINK: Final = ("conf", "neigh")
_NOT_LINKS: Final = ("all", "default")
_SECRETS: Final = {"tcp_fastopen_key", "stable_secret"}
_ALIASES: Final = {"base_reachable_time", "retrans_time", "unres_qlen"}
"""The same as ..._ms and ..._bytes, in coarser units."""

_FORWARDING: Final = "ipv4.conf.all.forwarding"
"""Another name of net.ipv4.ip_forward."""

Tree: TypeAlias = "dict[str, str | Tree]"
"""Values, in folders."""


def read(folder: str = _ROOT, above: int | None = None) -> Tree:
    """Return the parameters in the thread's network namespace, or those of a folder in the folder of a descriptor.

    Two kinds are left out. A read-only parameter is a report, or belongs to another namespace; one that cannot be read
    cannot be compared. Machine-wide parameters are visible in the machine's own namespace alone. Raises OSError.
    By descriptors: a whole path for each takes the kernel three times as long.
    """
    tree: Tree = {}
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
    except FileNotFoundError:  # a link that has just disappeared
        return tree
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    tree[entry.name] = read(entry.name, fd)
                elif entry.name not in _ALIASES and (value := _value(entry.name, fd)) is not None:
                    tree[entry.name] = value
    finally:
        os.close(fd)
    return tree


def sysctls(tree: Tree, mtus: Mapping[str, int]) -> tuple[Things, Things]:
    """Return the parameters, and those of each link that differ from a new link's; `mtus` are the links' own."""
    plain: dict[str, str] = {}
    by_link: dict[str, dict[str, str]] = {}
    for path, value in _flat(tree, ()):
        family, kind, link = (*path, "", "", "")[:3]
        if kind not in _PER_LINK or link in _NOT_LINKS or len(path) < 4:  # noqa: PLR2004 -- family, kind, link, parameter
            plain[".".join(path)] = value
        else:
            by_link.setdefault(link, {})[f"{family}.{kind}.{path[-1]}"] = value
    plain.pop(_FORWARDING, None)
    plain |= _neighbour_defaults(plain, by_link.get("lo", {}))
    parameters: Things = {f"net.{name}": value for name, value in plain.items()}
    own = {link: _own(values, parameters, mtus.get(link, 0)) for link, values in by_link.items()}
    return parameters, {link: values for link, values in own.items() if values}


def parameter(link: str, name: str) -> str:
    """Return the name of a link's parameter as sysctl(8) writes it: `net.ipv4.conf.eth0.forwarding`."""
    family, kind, last = name.split(".")
    return f"net.{family}.{kind}.{link.replace('.', '/')}.{last}"


def baseline(name: str, parameters: Mapping[str, object]) -> object:
    """Return a new link's value of `name`, as "ipv4.conf.rp_filter", if `parameters` are in force."""
    family, kind, last = name.split(".")
    # Only the machine's own namespace has neigh.default; elsewhere `lo` shows its value.
    of_lo = parameters.get(f"net.{family}.{kind}.lo.{last}") if kind == "neigh" else None
    return parameters.get(f"net.{family}.{kind}.default.{last}", of_lo)


def _neighbour_defaults(plain: Mapping[str, str], lo: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in lo.items():
        family, kind, last = name.split(".")
        if kind == "neigh" and f"{family}.neigh.default.{last}" not in plain:
            found[f"{family}.neigh.lo.{last}"] = value
    return found


def _own(values: Mapping[str, str], parameters: Things, mtu: int) -> Things:
    return {
        name: value
        for name, value in values.items()
        if value != (str(mtu) if name == "ipv6.conf.mtu" else baseline(name, parameters))
    }


def _flat(tree: Tree, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in sorted(tree):
        below = tree[name]
        if isinstance(below, str):
            yield (*above, name), below
        else:
            yield from _flat(below, (*above, name))


def _value(name: str, folder: int) -> str | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:  # gone, or write-only
        return None
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if not (mode & _READABLE and mode & _WRITABLE):
            return None
        value = os.read(fd, _USUAL)
        if len(value) > _USUAL // 2:
            value = os.pread(fd, _LONGEST, 0)
    except OSError:  # stable_secret has no value until it is set (EIO)
        return None
    finally:
        os.close(fd)
    if name in _SECRETS:
        return f"sha256 {sha256(value).hexdigest()[:12]}"
    return " ".join(value.decode(errors="backslashreplace").split())
