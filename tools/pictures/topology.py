"""Draws docs/topology.svg: the node of docs/topology.md with two pods, as `topology --format svg` does it.

`make pictures` writes the file; the same program gives the same bytes. The topology is made by hand.
"""

from pathlib import Path
from typing import Final

from harness.runtime.node_snapshot import NODE
from harness.views.namespaces import LinkEnd, LinkOwner
from harness.views.published_ports import PublishedPort
from harness.views.topology import Topology, TopologyLink, TopologyPlace
from harness.views.topology_svg import svg

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "topology.svg"

_VETHS: Final = {"pod1": "veth8e6bc71c615", "pod2": "veth58e72ce77b3"}
_ADDRESSES: Final = {"pod1": "10.77.0.2", "pod2": "10.77.0.3"}


def drawing() -> str:
    """Return the picture as an SVG document."""
    bridge = _link("net0", "", None)._replace(
        kind="bridge", addresses=("10.77.0.1/16",), owner=LinkOwner("network", "net")
    )
    ports = [_link(veth, pod, LinkEnd(pod, "eth0"))._replace(bridge="net0") for pod, veth in _VETHS.items()]
    node = TopologyPlace(NODE, "/run/netns/trial", (), (bridge, *ports), ("10.77.0.0/16 dev net0",))
    published = PublishedPort("", 8080, "tcp", _ADDRESSES["pod1"], 80, "", "inet cni_harness_portmap")
    places = {NODE: node} | {pod: _pod(pod) for pod in _VETHS}
    return "\n".join(svg(Topology(places, (published,)))) + "\n"


def _pod(pod: str) -> TopologyPlace:
    eth0 = _link("eth0", pod, LinkEnd(NODE, _VETHS[pod]))._replace(addresses=(f"{_ADDRESSES[pod]}/16",))
    routes = ("default via 10.77.0.1 dev eth0", "10.77.0.0/16 dev eth0")
    return TopologyPlace(pod, f"/run/netns/{pod}", (pod,), (eth0,), routes)


def _link(name: str, pod: str, peer: LinkEnd | None) -> TopologyLink:
    owner = LinkOwner("attachment", pod, "net", "", "eth0")
    return TopologyLink(name, "veth", "", 1500, is_up=True, addresses=(), bridge="", peer=peer, owner=owner)
