"""Which config maps a pod names: in volumes, and in its containers' variables."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from harness.kubelet.pod_containers import all_containers
from harness.kubelet.v1 import V1ConfigMap, V1Pod

ConfigMaps: TypeAlias = Callable[[str], Mapping[tuple[str, str], V1ConfigMap]]
"""Returns the config maps of the pod with this UID, by namespace and name."""


def named_config_maps(pod: V1Pod) -> set[tuple[str, str]]:
    """Return the config maps by namespace and name; they may be missing."""
    return {(pod.metadata.namespace, name) for name in _names(pod)}


def _names(pod: V1Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.config_map is not None:
            yield volume.config_map.name
    for container in all_containers(pod):
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield source.config_map_ref.name
        for variable in container.env:
            if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
                yield variable.value_from.config_map_key_ref.name
