"""Pods of bridge networks with the firewall plugin behind it, as a runtime attaches them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.attachments import Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node, PluginRun

_PROTOCOL = {"cniVersion": "1.0.0", "name": "net"}


def firewall_config(**keys: object) -> dict[str, Any]:
    """A configuration of the plugin in the network `net`; `keys` replace or add."""
    return {"cniVersion": "1.1.0", "name": "net", "type": "firewall"} | keys


class Chain:
    """A network of bridge and firewall; each plugin is of a suite of its own."""

    def __init__(
        self,
        node: Node,
        bin_dir: Path,
        keys: Mapping[str, Any] | None = None,
        *,
        of_reference: bool = False,
        **bridge: Any,
    ) -> None:
        """`keys` are those of the firewall plugin, `bridge` those of the bridge's.

        With `of_reference`, ADD is the reference's, and so are the verbs of `theirs`.
        """
        versions: dict[str, Any] = {"cniVersion": "1.0.0"} if of_reference else {}
        name = {"name": bridge["name"]} if "name" in bridge else {}
        adder = REFERENCE_BIN_DIR if of_reference else bin_dir
        config = firewall_config(**name, **versions, **(keys or {}))
        self.node = node
        self.bridge = Network(node, adder, bridge_config(**versions, **bridge))
        self.adder = Network(node, adder, config)
        self.ours = Network(node, bin_dir, config)
        self.theirs = Network(node, REFERENCE_BIN_DIR, config | _PROTOCOL)
        self.results: dict[str, Any] = {}

    def attach(self, pod: str) -> dict[str, Any]:
        """Make a pod on the bridge, without the firewall; return the result."""
        self.results[pod] = self.bridge.add(pod)
        result: dict[str, Any] = self.results[pod]
        return result

    def add(self, pod: str, **keys: Any) -> None:
        """Make a pod on the bridge and admit it."""
        result = self.attach(pod)

        answer = self.adder.succeed("ADD", pod, prevResult=result, **keys)

        assert answer == result

    def succeed(self, verb: str, pod: str, **keys: Any) -> None:
        """Execute our verb with the pod's result; it must succeed."""
        self.ours.succeed(verb, pod, **{"prevResult": self.results.get(pod)} | keys)

    def fail(self, verb: str, pod: str, **keys: Any) -> dict[str, Any]:
        """Execute our verb with the pod's result; it must fail. Return the error."""
        return self.ours.fail(verb, pod, **{"prevResult": self.results.get(pod)} | keys)

    def by_reference(self, verb: str, pod: str) -> PluginRun:
        """Execute the verb of the reference's firewall plugin with the pod's result."""
        return self.theirs.run(verb, pod, prevResult=self.results[pod] | {"cniVersion": "1.0.0"})


def iptables_rules(node: Node, variant: str = "nft") -> list[str]:
    """The rules and chains in the filter tables of both families, as `iptables -S` shows them."""
    programs = [f"{program}-{variant}" for program in ("iptables", "ip6tables")]
    lines = [node.run([program, "-S"]).stdout.splitlines() for program in programs]
    return [line for family in lines for line in family if not line.startswith("-P")]
