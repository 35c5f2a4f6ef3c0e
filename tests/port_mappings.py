"""Pods behind ports of their node, and connections to them without a process for either end."""

import socket
from pathlib import Path
from typing import Any

from tests.attachments import Network, bridge_config
from tests.node.firewall import socket_in
from tests.nodes import Node, PluginRun


def mapping(host_port: int, container_port: int, protocol: str = "tcp", **keys: object) -> dict[str, object]:
    """Return one entry of `runtimeConfig.portMappings`."""
    return {"hostPort": host_port, "containerPort": container_port, "protocol": protocol, **keys}


class Ports:
    """A list of bridge and portmap on one node; `keys` are portmap's, `interface` has those of bridge."""

    def __init__(self, node: Node, bin_dir: Path, *, name: str = "net", **keys: Any) -> None:
        interface = keys.pop("interface", {})
        self.node = node
        self.bridge = Network(node, bin_dir, bridge_config(name=name, **interface))
        self.portmap = Network(node, bin_dir, {"cniVersion": "1.1.0", "name": name, "type": "portmap", **keys})
        self.results: dict[str, Any] = {}
        self.mappings: dict[str, list[dict[str, object]]] = {}

    def attach(self, pod: str) -> None:
        """Make a pod on the bridge, without ports."""
        self.results[pod] = self.bridge.add(pod)

    def add(self, pod: str, *mappings: dict[str, object]) -> dict[str, Any]:
        """Make a pod with these ports; return the result."""
        if pod not in self.results:
            self.attach(pod)
        self.mappings[pod] = list(mappings)
        result: dict[str, Any] = self.succeed("ADD", pod)

        assert result["ips"] == self.results[pod]["ips"]
        return result

    def run(self, verb: str, pod: str, **changes: Any) -> PluginRun:
        """Execute one verb of portmap as a runtime does, with the pod's ports and result."""
        runtime_config = {"portMappings": self.mappings.get(pod, [])}
        sent = {"runtimeConfig": runtime_config, "prevResult": self.results[pod], **changes}
        return self.portmap.run(verb, pod, **{key: value for key, value in sent.items() if value is not None})

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
        return self.bridge.namespace(pod)


def connects(client: str, address: str, port: int, server: str, server_port: int) -> str:
    """Connect from the namespace at `client`, by TCP; return the client's address as the listener at `server` sees it.

    Raises OSError if nothing answers there, and TimeoutError if something else than the server has.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        socket_in(server, family, socket.SOCK_STREAM) as listener,
        socket_in(client, family, socket.SOCK_STREAM) as peer,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", server_port))
        listener.listen()
        peer.connect((address, port))
        # On a busy machine the peer's last packet is still on its way.
        listener.settimeout(10)
        accepted, seen = listener.accept()
        accepted.close()
        return str(seen[0])


def refuses(client: str, address: str, port: int) -> bool:
    """Tell whether nothing listens there: the host itself has answered so."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket_in(client, family, socket.SOCK_STREAM) as peer:
        try:
            peer.connect((address, port))
        except ConnectionRefusedError:
            return True
    return False
