"""Pods of limited bandwidth: a bridge's pods, then the bandwidth plugin; rates measured by iperf3."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node, until


def tc(node: Node, *args: str) -> list[dict[str, Any]]:
    """What `tc -j ARGS` prints on a node."""
    found: list[dict[str, Any]] = json.loads(node.run(["tc", "-j", *args]).stdout or "[]")
    return found


class Limited:
    """Pods on the bridge of one network; `plugin` is the bandwidth plugin behind it, with the given keys."""

    def __init__(self, node: Node, bin_dir: Path, *, interface: dict[str, Any] | None = None, **keys: Any) -> None:
        self.node = node
        base = interface or bridge_config()
        self.interface = Network(node, bin_dir, base)
        version, name = base["cniVersion"], base["name"]
        self.plugin = Network(node, bin_dir, {"cniVersion": version, "name": name, "type": "bandwidth", **keys})

    def attach(self, pod: str, **changes: Any) -> dict[str, Any]:
        """Attach a pod, without limits; return the result."""
        return self.interface.add(pod, **changes)

    def add(self, pod: str, **changes: Any) -> dict[str, Any]:
        """Attach a pod with its limits; return the result."""
        result: dict[str, Any] = self.plugin.succeed("ADD", pod, prevResult=self.attach(pod), **changes)
        return result

    def links(self) -> set[str]:
        """Names of the node's links."""
        return {link["ifname"] for link in self.node.ip("link")}

    def ifbs(self) -> list[str]:
        """Names of the node's IFBs."""
        return [link["ifname"] for link in self.node.ip("link", "show", "type", "ifb")]

    def veth(self, result: dict[str, Any]) -> str:
        """The host's end of a pod's veth pair."""
        names: list[str] = [link["name"] for link in result["interfaces"] if "sandbox" not in link]
        return next(name for name in names if name.startswith("veth"))

    def qdiscs(self, link: str) -> dict[str, dict[str, Any]]:
        """The qdiscs of a link by kind, without the kernel's own."""
        return {each["kind"]: each for each in tc(self.node, "qdisc", "show", "dev", link) if each["handle"] != "0:"}

    @contextmanager
    def listening(self, netns: str, address: str) -> Iterator[None]:
        """Run iperf3's server for one test."""
        command = ["iperf3", "-s", "-1", "-J", "--forceflush", "-B", address]
        with self.node.background(command, netns=netns):
            until(lambda: ":5201" in self.node.run(["ss", "-Hltn"], netns=netns).stdout)
            yield

    def first_second(self, pod: str, address: str, *, to_pod: bool, udp_rate: int = 0) -> float:
        """Bits that the receiver gets in its first second, between a pod and `address`, which is the node's."""
        options = ["-u", "-b", str(udp_rate), "-l", "1400"] if udp_rate else []
        direction = ["-R"] if to_pod else []
        command = ["iperf3", "-c", address, "-t", "1", "-J", "--get-server-output", *direction, *options]
        with self.listening(self.node.path, address):
            ran = self.node.run(command, netns=self.interface.namespace(pod), timeout=HANG)
        answer = json.loads(ran.stdout)
        own = answer if to_pod else answer["server_output_json"]
        received = own["intervals"][0]["sum"]
        return float(received["bytes"] * 8 / received["seconds"])
