"""Whether a network would work here, as far as that can be told without making anything."""

import json
from collections.abc import Callable, Iterator

from harness.chain_versions import unspoken_version
from harness.execute import PluginError
from harness.networks import LIST_KEYS, NetworkList, PluginConfig

__all__ = ["validate"]

_CAPABILITIES = frozenset(
    {
        "aliases",
        "bandwidth",
        "cgroupPath",
        "deviceID",
        "dns",
        "infinibandGUID",
        "io.kubernetes.cri.pod-annotations",
        "ipRanges",
        "ips",
        "mac",
        "portMappings",
    }
)
"""Those of CONVENTIONS.md, and the one that containerd adds."""

_GENERATED = frozenset({"runtimeconfig", "prevresult"})


def validate(network: NetworkList, versions: Callable[[str], list[str]], note: Callable[[str], object]) -> list[str]:
    """Return what would keep `network` from working; what is merely odd goes to `note`.

    `versions` asks a plugin for the versions it speaks. Delegates (`ipam.type`) are looked at like plugins.
    """
    for remark in _list_notes(network):
        note(remark)
    problems: list[str] = []
    for index, plugin in enumerate(network.plugins):
        where = f"plugins[{index}]"
        for remark in _plugin_notes(plugin, where):
            note(remark)
        problems += _reserved(plugin, where)
        asked = {f"{where}.type": plugin.type, f"{where}.ipam.type": plugin.delegate}
        for key, name in asked.items():
            if name:
                problems += _unusable(key, name, network, versions)
    return problems


def _unusable(key: str, name: str, network: NetworkList, versions: Callable[[str], list[str]]) -> Iterator[str]:
    try:
        spoken = versions(name)
    except PluginError as error:
        yield f"{key}: {error}"
        return
    if flaw := unspoken_version(network, name, spoken):
        yield f"{key}: {flaw}"


def _reserved(plugin: PluginConfig, where: str) -> Iterator[str]:
    """Find the keys that the runtime generates, and so drops from a file (SPEC.md section 1, "Reserved keys")."""
    for key in plugin.raw:
        if key.casefold() in _GENERATED or key.casefold().startswith("cni.dev/"):
            yield f"{where}.{key}: the key is the runtime's own, what a file says there is ignored"


def _plugin_notes(plugin: PluginConfig, where: str) -> Iterator[str]:
    for capability in sorted(plugin.capabilities - _CAPABILITIES):
        yield f"{where}.capabilities.{capability}: not a capability that CONVENTIONS.md knows"
    if "args" in {key.casefold() for key in plugin.raw}:
        yield f"{where}.args: the key is reserved, though passed on and widely used"


def _list_notes(network: NetworkList) -> Iterator[str]:
    """Find the keys that differ from a list's own in their capitals only: those are not read."""
    spelling = {key.casefold(): key for key in LIST_KEYS}
    for key in json.loads(network.raw):
        meant = spelling.get(key.casefold(), key)
        if meant != key:
            yield f'{key}: the key is ignored, "{meant}" was meant'
