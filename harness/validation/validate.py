"""Whether a network would work on this machine, as far as this is known without making anything."""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Final

from harness.libcni.chain_versions import unspoken_version
from harness.libcni.execute import PluginError
from harness.libcni.networks import LIST_KEYS, NetworkList, PluginConfig
from skel.record import rendered

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
"""The keys of CONVENTIONS.md, and the one that containerd adds."""

_GENERATED = frozenset({"runtimeconfig", "prevresult"})

_COMMENT_PREFIXES: Final = ("$", "_", "//")
"""Keys with these prefixes are comments, or for editors (`$schema`)."""


def validate(network: NetworkList, versions: Callable[[str], list[str]], note: Callable[[str], object]) -> list[str]:
    """Return the reasons for which `network` would not work; oddities go to `note`.

    `versions` asks a plugin for its versions. Delegates (`ipam.type`) are examined like plugins.
    """
    for remark in _list_notes(network):
        note(remark)
    problems: list[str] = []
    for index, plugin in enumerate(network.plugins):
        where = f"plugins[{index}]"
        for remark in _plugin_notes(plugin, where):
            note(remark)
        # SPEC.md section 1, "Reserved keys": a runtime generates these, and so drops them from a file.
        reserved = (key for key in plugin.raw if _is_generated(key))
        problems += (
            f"{where}.{key}: the key is the runtime's own, what a file says there is ignored" for key in reserved
        )
        problems += _misconfigured(plugin, where, note)
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


def _misconfigured(plugin: PluginConfig, where: str, note: Callable[[str], object]) -> Iterator[str]:
    """Compare the plugin's keys with its schema, and its values with each other."""
    from harness.validation.config_schema import examine  # takes 80 ms; only `validate` needs it
    from harness.validation.value_rules import rule_flaws

    generated = {key.lower() for key in plugin.raw if _is_generated(key)}
    config, problems, warnings = examine(plugin.raw, where, generated)
    for warning in warnings:
        note(warning)
    yield from problems
    yield from rule_flaws(plugin, config, where, note)


def _is_generated(key: str) -> bool:
    return key.casefold() in _GENERATED or key.casefold().startswith("cni.dev/")


def _plugin_notes(plugin: PluginConfig, where: str) -> Iterator[str]:
    for capability in sorted(plugin.capabilities - _CAPABILITIES):
        yield f"{where}.capabilities.{capability}: not a capability that CONVENTIONS.md knows"
    if "args" in {key.casefold() for key in plugin.raw}:
        yield f"{where}.args: the key is reserved, though passed on and widely used"


def _list_notes(network: NetworkList) -> Iterator[str]:
    """Find the keys that a list does not have; a list's own key in another capitalisation is one, too."""
    spelling = {key.casefold(): key for key in LIST_KEYS}
    for key, value in json.loads(network.raw).items():
        if key in LIST_KEYS:
            continue
        if key.casefold() in spelling:
            yield f'{key}: the key is ignored, "{spelling[key.casefold()]}" was meant'
        elif text := unknown_key(key, value, LIST_KEYS):
            yield f"{key}: {text}"


def unknown_key(key: str, value: object, known: Collection[str]) -> str:
    """Return a line for a key that is not among `known`, with the most similar known key; "" for a comment."""
    from difflib import get_close_matches  # for a mistyped key alone

    if key.startswith(_COMMENT_PREFIXES):
        return ""
    spelling = {name.casefold(): name for name in known}
    meant = get_close_matches(key.casefold(), spelling, n=1)
    hint = f'; did you mean "{spelling[meant[0]]}"?' if meant else ""
    return f"unknown key, its value is {rendered(value)}{hint}"
