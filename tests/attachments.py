"""Pods of one network on one node, attached by executing plugins as a runtime does."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nodes import Node, PluginRun

KEPT_BY_NODE = [
    "node/sysctl/*",
    "files/*networks",
    "files/*networks/net",
    "files/*/lock",
    "files/*last_reserved_ip*",
    "files/*/.owners",
]
"""Differences that an undone ADD leaves on purpose: for `ignore`.

ip_forward stays on, because another program may rely on it by now. host-local keeps its folder, lock, index and the
last reserved address.
"""

SHARED_BY_PODS = ["node/link/br0", "node/vlan/* dev br0", "node/address/*", "node/route/*", *KEPT_BY_NODE]
"""State that the first pod on a bridge makes for all of them, and the last one leaves: for `ignore`."""

DUAL_STACK = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd00:88::/64"}]],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
}


def bridge_config(**keys: object) -> dict[str, Any]:
    """A network on a bridge of its own: dual stack, the bridge is the pods' gateway; `keys` replace or add."""
    config = {
        "cniVersion": "1.1.0",
        "name": "net",
        "type": "bridge",
        "bridge": "br0",
        "isGateway": True,
        "ipam": DUAL_STACK,
    }
    return copy.deepcopy(config | keys)


class Network:
    """Attaches pods to a network by the plugin that `config` names, found in `bin_dir`."""

    def __init__(self, node: Node, bin_dir: Path, config: Mapping[str, Any]) -> None:
        self.node = node
        self.bin_dir = bin_dir
        self.config = dict(config)

    def run(self, verb: str, pod: str, *, ifname: str = "eth0", netns: str | None = None, **changes: Any) -> PluginRun:
        """Execute one verb for a pod; keys of the protocol (`args`, `extra_env`) go there, others into the config."""
        protocol = {key: changes.pop(key) for key in ("args", "extra_env") if key in changes}
        config = self.config | changes
        return self.node.plugin(
            self.bin_dir,
            config["type"],
            verb,
            config,
            container_id=f"id-{pod}",
            ifname=ifname,
            netns=self.namespace(pod) if netns is None else netns,
            **protocol,
        )

    def add(self, pod: str, **changes: Any) -> dict[str, Any]:
        """Make a pod and attach it; return the result."""
        self.node.pod_namespace(pod)
        result: dict[str, Any] = self.succeed("ADD", pod, **changes)
        return result

    def succeed(self, verb: str, pod: str, **changes: Any) -> Any:
        """Execute one verb that must succeed; return its output."""
        ran = self.run(verb, pod, **changes)

        assert (ran.code, ran.stderr) == (0, ""), ran
        return ran.stdout

    def fail(self, verb: str, pod: str, **changes: Any) -> dict[str, Any]:
        """Execute one verb that must fail; return its error."""
        ran = self.run(verb, pod, **changes)

        assert ran.code == 1, ran
        error: dict[str, Any] = ran.stdout
        return error

    def namespace(self, pod: str) -> str:
        """The path of a pod's network namespace."""
        return f"{self.node.path}-{pod}"

    def addresses(self, pod: str, ifname: str = "eth0") -> list[str]:
        """The global addresses that the kernel shows in a pod, IPv4 first."""
        (link,) = self.node.ip("addr", "show", "dev", ifname, netns=self.namespace(pod))
        return [address["local"] for address in link["addr_info"] if address["scope"] == "global"]

    def ping(self, pod: str | None, address: str, *, tries: int = 1) -> bool:
        """Whether a pod, or the node itself, gets an answer from `address`."""
        netns = None if pod is None else self.namespace(pod)
        command = ["ping", "-c", str(tries), "-W", "2", address]
        return self.node.run(command, netns=netns, check=False).returncode == 0
