"""A container's environment, and references to it: `$(NAME)` in commands, arguments and values.

`$$(NAME)` is the text `$(NAME)`; an unknown name stays as it is (Kubernetes' third_party/forked/golang/expansion).
Variables come from values, fields of the pod, resources of a container, and config maps (kubelet's
makeEnvironmentVariables).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from api.container import V1ConfigMapRef, V1Container, V1EnvVarSource, V1KeyRef, V1ResourceFieldRef
from api.pod import V1ConfigMap, V1Pod
from api.quantity import quantity_milli
from harness.cri.messages import KeyValue
from harness.kubelet.pod_records import ConfigMaps
from harness.kubelet.status.start_errors import StartError

_REFERENCE: Final = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")
_SUBSCRIPT: Final = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>.*)'\]")


@dataclass(frozen=True)
class EnvironmentSources:
    """What variables are made of, beside the manifest; `capacity` is the node's, in CPUs and bytes."""

    ips: tuple[str, ...]
    host_ip: str
    capacity: Mapping[str, Fraction]
    config_maps: ConfigMaps


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its references replaced."""

    def value(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        return values.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def variables(pod: V1Pod, container: V1Container, sources: EnvironmentSources) -> list[KeyValue]:
    """Return the variables of a container; each may refer to earlier ones, and a later one of a name counts.

    Raises StartError (CreateContainerConfigError) for a missing config map or key.
    """
    values: dict[str, str] = {}
    for source in container.env_from:
        reference = source.config_map_ref
        if reference is not None and (config_map := _config_map(pod, reference, sources)) is not None:
            values |= {source.prefix + key: text for key, text in config_map.data.items()}
    for each in container.env:
        if each.value_from is None:
            values[each.name] = expanded(each.value, values)
        elif (found := _value(pod, container, each.value_from, sources)) is not None:
            values[each.name] = found
    return [KeyValue(key=name, value=value) for name, value in values.items()]


def _config_map(pod: V1Pod, reference: V1ConfigMapRef | V1KeyRef, sources: EnvironmentSources) -> V1ConfigMap | None:
    """Return a config map that a pod refers to; None if it is missing, and optional. Raises StartError."""
    found = sources.config_maps(pod.metadata.uid).get((pod.metadata.namespace, reference.name))
    if found is None and not reference.optional:
        raise StartError("CreateContainerConfigError", f'configmap "{reference.name}" not found')
    return found


def _value(pod: V1Pod, container: V1Container, source: V1EnvVarSource, sources: EnvironmentSources) -> str | None:
    """Return the value of a variable that refers to something; None if that is missing, and optional."""
    if source.field_ref is not None:
        return _field(pod, source.field_ref.field_path, sources)
    if source.resource_field_ref is not None:
        return _resource(pod, container, source.resource_field_ref, sources.capacity)
    if source.config_map_key_ref is not None:
        return _key(pod, source.config_map_key_ref, sources)
    return None


def _field(pod: V1Pod, path: str, sources: EnvironmentSources) -> str:
    metadata = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        pairs = metadata.labels if match["map"] == "labels" else metadata.annotations
        return pairs.get(match["key"], "")
    fields = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": sources.host_ip,
        "status.hostIPs": sources.host_ip,
        "status.podIP": next(iter(sources.ips), ""),
        "status.podIPs": ",".join(sources.ips),
    }
    return fields[path]


def _resource(
    pod: V1Pod, container: V1Container, reference: V1ResourceFieldRef, capacity: Mapping[str, Fraction]
) -> str:
    """Return a limit or request in units of the divisor, rounded up; without a limit the node's capacity counts."""
    named = pod.spec.container(reference.container_name) if reference.container_name else container
    kind, _, name = reference.resource.partition(".")
    quantities = {} if named is None else getattr(named.resources, kind)
    if name in quantities:
        amount = Fraction(quantity_milli(quantities[name]), 1000)
    else:
        amount = capacity.get(name, Fraction(0)) if kind == "limits" else Fraction(0)
    divisor = Fraction(quantity_milli(reference.divisor or "1"), 1000)
    return str(ceil(amount / (divisor or Fraction(1))))


def _key(pod: V1Pod, reference: V1KeyRef, sources: EnvironmentSources) -> str | None:
    config_map = _config_map(pod, reference, sources)
    if config_map is not None and reference.key in config_map.data:
        return config_map.data[reference.key]
    if reference.optional:
        return None
    message = f"couldn't find key {reference.key} in ConfigMap {pod.metadata.namespace}/{reference.name}"
    raise StartError("CreateContainerConfigError", message)
