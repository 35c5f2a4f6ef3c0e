"""Pods of a list of several plugins on one node, attached by executing the plugins as a runtime does."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.nodes import Node, PluginRun


class Chain:
    """Attaches pods by `plugins` in order, found in `bin_dir`; each plugin gets the result of the one before."""

    def __init__(self, node: Node, bin_dir: Path, name: str, version: str, plugins: Sequence[dict[str, Any]]) -> None:
        self.node = node
        self.bin_dir = bin_dir
        self.name = name
        self.version = version
        self.plugins = copy.deepcopy(list(plugins))

    def namespace(self, pod: str) -> str:
        """The path of a pod's network namespace."""
        return f"{self.node.path}-{pod}"

    def add(self, pod: str, *, ifname: str = "eth0", new: bool = True) -> dict[str, Any]:
        """Make a pod, unless it is not `new`, and attach it; return the last plugin's result."""
        if new:
            self.node.pod_namespace(pod)
        result: dict[str, Any] | None = None
        for plugin in self.plugins:
            ran = self.run("ADD", plugin, pod, result, ifname=ifname)
            assert ran.code == 0, ran
            result = ran.stdout
        assert result is not None
        return result

    def check(self, pod: str, result: dict[str, Any], *, ifname: str = "eth0") -> None:
        """CHECK by each plugin, which must succeed."""
        for plugin in self.plugins:
            ran = self.run("CHECK", plugin, pod, result, ifname=ifname)
            assert (ran.code, ran.stdout) == (0, None), ran

    def delete(
        self, pod: str, result: dict[str, Any] | None, *, ifname: str = "eth0", netns: str | None = None
    ) -> None:
        """DEL by each plugin, the last one first, which must succeed."""
        for plugin in reversed(self.plugins):
            ran = self.run("DEL", plugin, pod, result, ifname=ifname, netns=netns)
            assert (ran.code, ran.stdout) == (0, None), ran

    def last(self, verb: str, pod: str, result: dict[str, Any] | None, **keys: Any) -> PluginRun:
        """Execute one verb of the last plugin, with `keys` in its configuration."""
        return self.run(verb, self.plugins[-1] | keys, pod, result)

    def run(
        self,
        verb: str,
        plugin: dict[str, Any],
        pod: str,
        result: dict[str, Any] | None,
        *,
        ifname: str = "eth0",
        netns: str | None = None,
    ) -> PluginRun:
        """Execute one verb of one plugin."""
        return self.node.plugin(
            self.bin_dir,
            plugin["type"],
            verb,
            self.request(plugin, result),
            container_id=f"id-{pod}",
            ifname=ifname,
            netns=self.namespace(pod) if netns is None else netns,
        )

    def request(self, plugin: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
        """The configuration that a plugin gets on stdin."""
        given = {"cniVersion": self.version, "name": self.name, **plugin}
        return given if result is None else {**given, "prevResult": result}
