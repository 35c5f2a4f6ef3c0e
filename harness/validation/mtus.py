"""The `mtu` of our interface plugins, compared with the links and routes of this machine as they are now."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from netlink.link import Link
from netlink.path_mtu import OVERHEADS, PathMtu, link_mtu, path_mtu
from netlink.rtnl import Rtnl

_AUTO: Final = "auto"
_MIN: Final = 68


def mtu_flaws(config: Mapping[str, Any], where: str, note: Callable[[str], object]) -> Iterator[str]:
    """Yield errors about `mtu` and `mtuOverhead`; `note` gets differences from this machine's own MTUs.

    `config` is one plugin's configuration in the schemas' spelling, `where` its path.
    """
    kind, mtu, overhead = config.get("type"), config.get("mtu", 0), config.get("mtuOverhead", 0)
    if kind not in {"bridge", "ptp", "macvlan"} or not _is_readable(mtu, overhead):
        return
    if overhead and mtu != _AUTO:
        yield f'{where}.mtuOverhead ({kind}): it needs mtu: "auto", got mtu: {mtu}'
        return
    if not mtu or config.get("linkInContainer"):
        return
    try:
        with Rtnl() as here:
            way = _way(here, config, overhead)
            bridge = here.link(config.get("bridge", "cni0")) if kind == "bridge" else None
    except OSError as error:
        note(f"{where}.mtu ({kind}): this machine's MTUs are unknown: {error.strerror}")
        return
    if way is None:
        if mtu == _AUTO:
            note(f'{where}.mtu ({kind}): "auto" is the kernel\'s default here, as there is no default route')
    elif way.mtu < _MIN:
        yield f"{where}.mtuOverhead ({kind}): it leaves {way.mtu} bytes ({way.reason})"
    else:
        _compare(f"{where}.mtu ({kind})", mtu, way, bridge, note)


def _compare(path: str, mtu: int | str, way: PathMtu, bridge: Link | None, note: Callable[[str], object]) -> None:
    if isinstance(mtu, int):
        if mtu > way.mtu:
            note(f"{path}: {mtu} is more than packets can have on their way out: {way.reason}")
    elif bridge is not None and bridge.mtu < way.mtu:
        note(f'{path}: "auto" stands for {way.mtu} ({way.reason}), and the bridge "{bridge.name}" has {bridge.mtu}')


def _way(here: Rtnl, config: Mapping[str, Any], overhead: int | str) -> PathMtu | None:
    """Return the MTU that counts, as the plugin finds it."""
    if config["type"] != "macvlan" or not config.get("master"):
        return path_mtu(here, overhead)
    master = here.link(config["master"])
    return None if master is None else link_mtu(master.mtu, master.name, overhead)


def _is_readable(mtu: object, overhead: object) -> bool:
    """Tell whether the schemas have no objection."""
    return (mtu == _AUTO or type(mtu) is int) and (type(overhead) is int or overhead in OVERHEADS)
