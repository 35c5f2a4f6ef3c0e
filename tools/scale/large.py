"""One agent with thousands of peers, in a process of its own: `python -m tools.scale.large NETNS PEERS [PORT]`.

It prints JSON: the seconds of CPU, and the resident memory in MiB. With a port, it asks the API server there for the
Nodes; without one, they are decoded beforehand, and have IPv4 only.
"""

import json
import os
import sys
from socket import AF_INET
from time import process_time
from typing import Final

from agent.agent import Agent
from agent.cluster import Cluster
from agent.kernel import PROTOCOL
from agent.loop import serve
from agent.options import Options
from agent.peers import ClusterNode
from agent.plan import Backend
from agent.sources import ApiNodes
from kube.config import ClusterConfig, Server
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl

ADDRESS: Final = "198.18.0.1"
"""Of the node with the agent; 198.18.0.0/15 is on its link."""
_KIB: Final = 1024


def main(netns: str, peers: int, port: int) -> None:
    """Make the routes, and print the figures."""
    with open_namespace(netns) as namespace, Agent(Options("node-0", Backend.HOST_GW), namespace) as agent:
        if port:
            _follow(agent, port, peers)
            seconds = process_time()
        else:
            nodes = [
                ClusterNode(f"node-{n}", "", (f"10.{n >> 8}.{n & 0xFF}.0/24",), (address(n),)) for n in range(peers)
            ]
            begin = process_time()
            cluster = Cluster()
            cluster.update(nodes)
            agent.reconcile(cluster.judgement_for("node-0"))
            seconds = process_time() - begin
        with Rtnl(namespace) as rtnl:
            made = sum(route.protocol == PROTOCOL for route in rtnl.routes(AF_INET))
        if made != peers - 1:  # without its own
            raise SystemExit(f"{made} of {peers - 1} routes: {agent.problems[:1]}")
        sys.stdout.write(json.dumps({"seconds": seconds, "MiB": _resident() / _KIB}))


def _follow(agent: Agent, port: int, peers: int) -> None:
    def tell(_: Agent, __: list[str]) -> None:
        if agent.plan is not None and len(agent.plan.ways) == peers - 1:
            os.eventfd_write(stop, 1)

    stop = os.eventfd(0)
    source = ApiNodes(ClusterConfig(Server("http", "127.0.0.1", port)))
    serve(source, Cluster(), [agent], stop, tell)
    source.close()


def address(number: int) -> str:
    """Return the address of a node."""
    return f"198.{18 + (number + 1 >> 16)}.{number + 1 >> 8 & 0xFF}.{number + 1 & 0xFF}"


def _resident() -> int:
    """Return the resident memory in KiB."""
    with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123 -- of this process
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 0)
