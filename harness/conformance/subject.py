"""The subject of a test: one plugin of a network list, its kind, and the plugins that are executed before it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from harness.libcni.networks import NetworkList, PluginConfig

LOOPBACK: Final = "lo"
_LOOPBACK_PLUGIN: Final = "loopback"
_IFNAME: Final = "eth0"


class Profile(StrEnum):
    """The kind of a plugin under test."""

    INTERFACE = "interface"
    """Makes the interface of a pod; the first of a list."""
    CHAINED = "chained"
    """Changes objects that the plugins before it in the list have made."""
    IPAM = "ipam"
    """Gives addresses; executed by an interface plugin."""


IN_POD: Final = frozenset({Profile.INTERFACE, Profile.CHAINED})
"""The profiles of plugins that work on the interface of a pod."""
GIVING_ADDRESSES: Final = frozenset({Profile.INTERFACE, Profile.IPAM})
"""The profiles of plugins whose results bring addresses into the chain."""


@dataclass(frozen=True)
class Subject:
    """One plugin in its place. `before` makes the objects that it works on; `profile` is None until it is found.

    `executed` are the plugins that its ADD was seen to execute, in their order.
    """

    network: NetworkList
    before: tuple[PluginConfig, ...]
    plugin: PluginConfig
    bin_dirs: tuple[Path, ...]
    profile: Profile | None = None
    executed: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The name of the executable."""
        return self.plugin.type

    @property
    def ifname(self) -> str:
        """The container's interface as runtimes name it; `lo` for the loopback plugin."""
        return LOOPBACK if self.type == _LOOPBACK_PLUGIN else _IFNAME

    @property
    def delegate(self) -> str:
        """The name of the IPAM plugin that this one has to execute, or empty."""
        return "" if self.profile is Profile.IPAM else self.plugin.delegate

    @property
    def delegates(self) -> tuple[str, ...]:
        """The names of the plugins that this one executes: the IPAM plugin, or those that its ADD executed."""
        return self.executed or ((self.delegate,) if self.delegate else ())

    @property
    def executables(self) -> list[str]:
        """The names of the plugin, of those before it, and of the IPAM plugins that they delegate to."""
        plugins = (self.plugin, *self.before)
        return list(dict.fromkeys(name for each in plugins for name in (each.type, each.delegate) if name))

    @property
    def place(self) -> str:
        """The plugin and its network in words: `bridge (interface), network my-network`."""
        return f"{self}, network {self.network.name}"

    def __str__(self) -> str:
        return f"{self.type} ({self.profile})" if self.profile else self.type


def subjects_of(
    network: NetworkList, bin_dirs: Sequence[Path], *, profile: Profile | None = None, only: Sequence[str] = ()
) -> Iterator[Subject]:
    """Yield each plugin of a list, followed by its IPAM plugin if it delegates; only the types in `only`.

    A plugin with others before it is a chained one. The first one's profile is found later, unless `profile` is given.
    With the profile of IPAM plugins, plugins that delegate are left out; with the others, delegates are left out.
    """
    for position, plugin in enumerate(network.plugins):
        found = profile or (Profile.CHAINED if position else None)
        subject = Subject(network, network.plugins[:position], plugin, tuple(bin_dirs), found)
        delegates = plugin.delegate not in ("", plugin.type)
        candidates = [] if delegates and profile is Profile.IPAM else [subject]
        if delegates and profile in (None, Profile.IPAM):
            delegate = replace(plugin, type=plugin.delegate)
            candidates.append(replace(subject, plugin=delegate, before=(), profile=Profile.IPAM))
        yield from (each for each in candidates if not only or each.type in only)
