"""Rules of our plugins' configurations that compare values; a JSON Schema cannot express them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.libcni.networks import PluginConfig
from harness.validation.address_ranges import HOST_LOCAL, range_flaws
from harness.validation.mtus import mtu_flaws


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
    if plugin.type == "bridge":
        yield from _trunk_flaws(config.get("vlanTrunk"), f"{where}.vlanTrunk")


def _trunk_flaws(trunk: object, path: str) -> Iterator[str]:
    for index, vlans in enumerate(trunk if isinstance(trunk, list) else ()):
        match vlans:
            case {"minID": int(low), "maxID": int(high)} if low > high:
                yield f"{path}[{index}] (bridge): minID {low} is above maxID {high}"
