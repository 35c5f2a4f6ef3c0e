"""The plan of a new pod: its names, its networks, and the folders of their plugins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.libcni.networks import NetworkList

__all__ = ["NetworkPlan", "PodPlan"]


@dataclass(frozen=True)
class NetworkPlan:
    """A network for a new pod; `cni_args` are added to the pairs of every pod, or replace them."""

    network: NetworkList
    ifname: str
    cni_args: Mapping[str, str]
    capability_args: Mapping[str, object]


@dataclass(frozen=True)
class PodPlan:
    """A pod that is to be made."""

    namespace: str
    name: str
    networks: Sequence[NetworkPlan]
    bin_dirs: Sequence[Path]
