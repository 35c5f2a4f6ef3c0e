"""Rules that compare values of configurations; a JSON Schema cannot express them.

Values are compared with each other, with the links and routes of this machine, and with other networks' subnets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from netaddr import AddrFormatError, IPNetwork, IPSet

from harness.libcni.networks import NetworkList, PluginConfig
from harness.validation.address_ranges import HOST_LOCAL, range_flaws
from netlink.link import Link
from netlink.path_mtu import OVERHEADS, PathMtu, link_mtu, path_mtu
from netlink.rtnl import Rtnl

_AUTO: Final = "auto"
_MIN: Final = 68  # bytes: every host forwards a packet of this size whole (RFC 791)


def rule_flaws(
    plugin: PluginConfig, config: Mapping[str, Any], where: str, note: Callable[[str], object]
) -> Iterator[str]:
    """Yield errors about values of `config` that contradict each other; `note` gets oddities.

    `config` is the configuration of `plugin` in the schemas' spelling, `where` its path.
    """
    ipam = config.get("ipam")
    if plugin.delegate == HOST_LOCAL and isinstance(ipam, dict):
        found = range_flaws(ipam, f"{where}.ipam", lambda path, text: note(f"{path} ({HOST_LOCAL}): {text}"))
        yield from (f"{path} ({HOST_LOCAL}): {text}" for path, text in found)
        if not ipam.get("subnet") and not ipam.get("ranges") and "ipRanges" not in plugin.capabilities:
            yield f"{where}.ipam ({HOST_LOCAL}): there are no addresses: expected ranges or subnet"
    yield from mtu_flaws(config, where, note)
    trunk = config.get("vlanTrunk") if plugin.type == "bridge" else None
    for index, vlans in enumerate(trunk if isinstance(trunk, list) else ()):
        match vlans:
            case {"minID": int(low), "maxID": int(high)} if low > high:
                yield f"{where}.vlanTrunk[{index}] (bridge): minID {low} is above maxID {high}"


def mtu_flaws(config: Mapping[str, Any], where: str, note: Callable[[str], object]) -> Iterator[str]:
    """Yield errors about `mtu` and `mtuOverhead`; `note` gets differences from this machine's own MTUs.

    `config` is one plugin's configuration in the schemas' spelling, `where` its path.
    """
    kind, mtu, overhead = config.get("type"), config.get("mtu", 0), config.get("mtuOverhead", 0)
    # Otherwise the schemas object.
    is_readable = (mtu == _AUTO or type(mtu) is int) and (type(overhead) is int or overhead in OVERHEADS)
    if kind not in {"bridge", "ptp", "macvlan"} or not is_readable:
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


def overlaps(networks: Sequence[NetworkList]) -> Iterator[str]:
    """Yield a line for each pair of networks whose IPAM sections name subnets that share addresses."""
    subnets = {network.name: IPSet(_subnets(network)) for network in networks}
    for (one, first), (other, second) in combinations(subnets.items(), 2):
        shared = first & second
        if shared:
            cidrs = ", ".join(str(cidr) for cidr in shared.iter_cidrs())
            yield f"{one} and {other} both give away addresses of {cidrs}"


def _subnets(network: NetworkList) -> Iterator[IPNetwork]:
    for plugin in network.plugins:
        ipam = plugin.raw.get("ipam")
        for text in _named_subnets(ipam):
            try:
                yield IPNetwork(text)
            except (AddrFormatError, ValueError):
                continue  # the IPAM plugin reports an invalid subnet


def _named_subnets(section: object) -> Iterator[str]:
    """Find the values of `subnet` at any depth: host-local has them in `ranges`, other plugins elsewhere."""
    if isinstance(section, list):
        for item in section:
            yield from _named_subnets(item)
    elif isinstance(section, dict):
        for key, value in section.items():
            if key.casefold() == "subnet" and isinstance(value, str):
                yield value
            else:
                yield from _named_subnets(value)
