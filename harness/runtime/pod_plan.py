"""The plan of a new pod: its networks, and their arguments."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.libcni.networks import NetworkList
from harness.runtime.pods import PodNetwork


@dataclass(frozen=True)
class NetworkPlan:
    """A network for a new pod; `cni_args` are added to the pairs of every pod, or replace them."""

    network: NetworkList
    ifname: str
    cni_args: Mapping[str, str]
    capability_args: Mapping[str, object]

    def to_network(self) -> PodNetwork:
        """Return the record of the network before its ADD."""
        return PodNetwork(
            name=self.network.name,
            ifname=self.ifname,
            config=self.network.raw.decode(),
            source=str(self.network.source or ""),
            cni_args=dict(self.cni_args),
            capability_args=dict(self.capability_args),
        )
