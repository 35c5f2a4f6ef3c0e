"""Plugins that do not support the version in which runtimes use their list.

A list may offer several versions (`cniVersions`); a runtime uses the highest that it knows. Debian's portmap and
bandwidth stop at 1.0.0. In a list that offers 1.1.0, they make every pod fail. containerd 2.3 then asks every plugin
for its STATUS, too, and reports the whole node as NotReady.
"""

from collections.abc import Callable, Iterator

from harness.libcni.execute import PluginError
from harness.libcni.networks import NetworkList
from skel.versions import SUPPORTED, VERB_SINCE, at_least

_STATUS_SINCE = VERB_SINCE["STATUS"]


def unspoken_versions(network: NetworkList, versions: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield a line for each plugin and delegate of `network` that does not support the list's highest version.

    `versions` asks a plugin for its versions (`plugin_versions`). A plugin that is missing, or fails, is left out.
    """
    for index, plugin in enumerate(network.plugins):
        for key, name in ((f"plugins[{index}].type", plugin.type), (f"plugins[{index}].ipam.type", plugin.delegate)):
            try:
                spoken = versions(name) if name else [network.cni_version]
            except PluginError:
                continue
            if flaw := unspoken_version(network, name, spoken):
                yield f"{key}: {flaw}"


def unspoken_version(network: NetworkList, name: str, spoken: list[str]) -> str:
    """Return why the plugin `name`, which supports `spoken`, cannot serve `network`; an empty string if it can."""
    wanted = network.cni_version
    if wanted in spoken:
        return ""
    flaw = f"plugin {name} does not speak version {wanted}, only {', '.join(spoken)}"
    known = [version for version in SUPPORTED if version in spoken]
    if not known or not at_least(wanted, _STATUS_SINCE) or at_least(known[-1], _STATUS_SINCE):
        return flaw
    way_out = (
        f'take "{wanted}" out of cniVersions' if len(network.cni_versions) > 1 else f'set cniVersion "{known[-1]}"'
    )
    return f"{flaw}; containerd 2.3 goes NotReady with this list: {way_out}, or use a {name} that speaks {wanted}"
