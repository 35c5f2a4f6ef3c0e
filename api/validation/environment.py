"""The API server's rules for environment variables, in its order and words (ValidateEnv, ValidateEnvFrom)."""

from collections.abc import Iterator
from typing import Final

from api.container import V1EnvFromSource, V1EnvVar, V1EnvVarSource, V1FieldRef, V1ResourceFieldRef
from api.errors import FieldError, flaws_at, invalid, not_supported, required
from api.names import qualified_name_flaws
from api.quantity import parse_quantity

_NO_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_FIELDS_OF_VOLUMES: Final = frozenset(
    ("metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
"""Fields that a selector knows, but no environment variable."""
_RESOURCES: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_OF_CPU: Final = ("1m", "1")
_OF_BYTES: Final = ("1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE"))


def validate_env(variables: list[V1EnvVar], path: str) -> Iterator[FieldError]:
    """Judge the environment variables of a container, with defaults filled in."""
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        yield from variable.flaws(place, "name")
        if variable.value_from is not None:
            yield from _of_source(variable.value_from, variable.value, f"{place}.valueFrom")


def validate_env_from(sources: list[V1EnvFromSource], path: str) -> Iterator[FieldError]:
    """Judge the config maps whose keys become variables; as in the API server, some errors name no index."""
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        yield from source.flaws(place, "prefix")
        if source.config_map_ref is None:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        else:
            yield from source.config_map_ref.flaws(f"{place}.configMapRef")


def _of_source(source: V1EnvVarSource, value: str, path: str) -> Iterator[FieldError]:
    if source.field_ref is not None:
        yield from _of_field(source.field_ref, f"{path}.fieldRef")
    if source.resource_field_ref is not None:
        yield from _of_resource(source.resource_field_ref, f"{path}.resourceFieldRef")
    if source.config_map_key_ref is not None:
        yield from source.config_map_key_ref.flaws(f"{path}.configMapKeyRef")
    members = source.members()
    if not members:
        yield invalid(path, "", _NO_SOURCE)
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(members) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _of_field(ref: V1FieldRef, path: str) -> Iterator[FieldError]:
    """Judge a field of the pod (validateObjectFieldSelector)."""
    if not ref.api_version:
        yield required(f"{path}.apiVersion")
    elif not ref.field_path:
        yield required(f"{path}.fieldPath")
    elif ref.api_version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {ref.api_version}"
        yield invalid(f"{path}.fieldPath", ref.field_path, detail)
    elif ref.field_path.endswith("']") and "['" in ref.field_path[1:]:
        name, _, subscript = ref.field_path.removesuffix("']").partition("['")
        if name == "metadata.annotations":
            yield from flaws_at(path, subscript.lower(), qualified_name_flaws)
        elif name == "metadata.labels":
            yield from flaws_at(path, subscript, qualified_name_flaws)
        else:
            detail = f"error converting fieldPath: field label does not support subscript: {ref.field_path}"
            yield invalid(f"{path}.fieldPath", ref.field_path, detail)
    elif ref.field_path in _FIELDS_OF_VOLUMES:
        yield not_supported(f"{path}.fieldPath", ref.field_path, _FIELDS)
    elif ref.field_path not in _FIELDS:
        detail = f"error converting fieldPath: field label not supported: {ref.field_path}"
        yield invalid(f"{path}.fieldPath", ref.field_path, detail)


def _of_resource(ref: V1ResourceFieldRef, path: str) -> Iterator[FieldError]:
    """Judge a limit or request (validateContainerResourceFieldSelector)."""
    if not ref.resource:
        yield required(f"{path}.resource")
    elif ref.resource not in _RESOURCES and not ref.resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield not_supported(f"{path}.resource", ref.resource, _RESOURCES)
    divisor = parse_quantity(ref.divisor or "0")
    of_cpu = ref.resource.endswith(".cpu")
    if divisor.nano and str(divisor) not in (_OF_CPU if of_cpu else _OF_BYTES):
        kind = ref.resource.partition(".")[2].replace("ephemeral-storage", "local ephemeral storage")
        kind = "hugepages" if kind.startswith("hugepages-") else kind
        words = "1m and 1" if of_cpu else ", ".join(_OF_BYTES)
        detail = f"only divisor's values {words} are supported with the {kind} resource"
        yield invalid(f"{path}.divisor", ref.resource, detail)
