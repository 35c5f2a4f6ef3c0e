"""A pod that is to be made: its names, its networks, and where their plugins are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.libcni.networks import NetworkList

__all__ = ["NetworkPlan", "PodPlan"]


@dataclass(frozen=True)
class NetworkPlan:
    """A network that a pod is to be added to; `cni_args` are pairs beside, or instead of, those of every pod."""

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
