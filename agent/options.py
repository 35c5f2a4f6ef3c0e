"""The settings of the agent of one node."""

from pathlib import Path
from typing import Final, NamedTuple

from agent.peers import Network
from agent.plan import Backend

TEMPLATE: Final = Path(__file__).parents[1] / "conf" / "agent.conflist.in"
"""The network list of nodes that name no other template."""
NETWORK_LIST: Final = "10-cni-harness-agent.conflist"
"""The name of the network list's file."""


class Options(NamedTuple):
    """The settings; by default routes and tunnels alone are made."""

    node: str
    """The name of its Node."""
    backend: Backend = Backend.AUTO
    mtu: int = 0
    """Of pods, in bytes; 0 to follow from the links."""
    cluster_cidrs: tuple[Network, ...] = ()
    """The ranges of all pods: packets of this node's pods to other addresses are masqueraded. Without, none are."""
    non_masquerade: tuple[Network, ...] = ()
    """Further ranges to which packets keep their source address."""
    forwarding: bool = False
    """Whether forwarding is turned on for the families of the node's ranges."""
    accept_ra: bool = False
    """Whether links whose routes come by router advertisements go on taking them while IPv6 is forwarded."""
    network_list: Path | None = None
    """The file of the network list; None for none."""
    template: Path = TEMPLATE
    state_dir: Path | None = None
    """The folder with the record of changes; without it, they cannot be taken back."""
