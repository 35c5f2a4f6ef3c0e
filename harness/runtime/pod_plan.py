"""The plan of a new pod: its networks, and their arguments."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.libcni.networks import NetworkList

__all__ = ["NetworkPlan"]


@dataclass(frozen=True)
class NetworkPlan:
    """A network for a new pod; `cni_args` are added to the pairs of every pod, or replace them."""

    network: NetworkList
    ifname: str
    cni_args: Mapping[str, str]
    capability_args: Mapping[str, object]
