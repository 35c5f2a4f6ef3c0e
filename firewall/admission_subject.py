"""The admission of an attachment through the node's firewall, as its configuration asks for it."""

from firewall.tables import Interface
from lean.typing import Final, NamedTuple, Sequence

SAME_BRIDGE: Final = "same-bridge"
ISOLATED: Final = "isolated"
ADMIN_CHAIN: Final = "CNI-ADMIN"
ZONE: Final = "trusted"


class Ingress(NamedTuple):
    """A restriction of the traffic between pods."""

    policy: str
    """`SAME_BRIDGE`: pods of other restricted bridges do not reach the pod. `ISOLATED`: nor do those of its own."""
    bridge: str
    """The host's interface that the pods of the network share."""
    port: str = ""
    """The pod's port of the bridge; "" if it is not known."""


class Admission(NamedTuple):
    """The addresses that the firewall lets pass, and by which means. Without addresses: any that the owner has."""

    addresses: Sequence[Interface] = ()
    ingress: Ingress | None = None
    backend: str | None = None
    """`nftables`, `iptables`, `firewalld`; None for a choice by the node's firewall."""
    admin_chain: str = ADMIN_CHAIN
    """The chain of iptables that comes before the rules of pods."""
    zone: str = ZONE
    """The zone of firewalld."""
