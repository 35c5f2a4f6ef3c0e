"""Things on the node before the plugin under test: its author's preparation, and a network for IPAM plugins."""

import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from harness.overload import overload
from harness.runtime.node import Node
from harness.runtime.site import Site

_QUOTED: Final = 400
NODE_END: Final = "pods0"
"""The node's interface of the network, which is there before `--prepare`."""
_BRIDGE: Final = "bridge0"
_SECONDS: Final = 60.0


class PreparationError(Exception):
    """The node cannot be prepared."""


def prepare_node(program: Path, node: Node, timeout: float) -> None:
    """Execute a program on a node in use, and wait `timeout` seconds at most for its end.

    Processes that it has started run on until the node is removed. Raises PreparationError.
    """
    with TemporaryFile() as said:  # no pipe: its child processes may keep that open
        try:
            exit_code = node.run(
                subprocess.run,
                [program],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                process_group=0,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise PreparationError(f"--prepare {program}: no end after {timeout:g} s") from None
        except OSError as error:
            raise PreparationError(f"--prepare {program}: {error.strerror}") from error
        if exit_code != 0:
            said.seek(0)
            words = " ".join(said.read().decode(errors="replace").split())[-_QUOTED:] or "nothing said"
            raise PreparationError(f"--prepare {program}: exit code {exit_code}: {words}")


class SharedNetwork:
    """A bridge in a namespace of its own: the end of a container changes nothing on the node."""

    def __init__(self, site: Site, node_netns: str) -> None:
        """Make the network, and the node's interface of it. Raises OSError."""
        self._netns = site.namespace()
        self._ports = 0
        _ip(self._netns, f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")
        self.join(node_netns, NODE_END)

    def join(self, netns: str, ifname: str) -> None:
        """Make an interface in the namespace at `netns` that is up and on this network. Raises OSError."""
        self._ports += 1
        port = f"port{self._ports}"
        peer = f"peer name {ifname} netns {Path(netns).name}"
        _ip(self._netns, f"link add {port} type veth {peer}", f"link set {port} master {_BRIDGE} up")
        _ip(netns, f"link set {ifname} up")


def _ip(netns: str, *commands: str) -> None:
    done = subprocess.run(
        ["ip", "-n", Path(netns).name, "-batch", "-"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS * overload(),
    )
    if done.returncode != 0:
        raise OSError(f"ip {'; '.join(commands)}: {done.stderr.strip()}")
