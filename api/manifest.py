"""Pods and config maps from YAML or JSON, read strictly.

Keys that the API lacks are errors in the words of `kubectl --validate=strict`: a misspelt key would otherwise
have no effect and no message. kubelet itself ignores them, takes one pod of a file, and refuses config maps in files.
"""

from typing import Final, NamedTuple, TypeVar

from api.documents import ManifestError, read_documents
from api.errors import DecodeError, aggregate, invalid, not_supported, quoted, required
from api.names import config_map_key_flaws
from api.object import V1Object, take_unknown_fields
from api.pod import V1ConfigMap, V1Pod
from api.validation.pod import validate_metadata

T = TypeVar("T", bound=V1Object)

_LISTS: Final = ("ConfigMapList", "List", "PodList")
_CONTROLLED: Final = {
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"), "spec.template"
    ),
    "CronJob": "spec.jobTemplate.spec.template",
}
"""Where the kinds that a controller makes pods for have their pod."""


class Manifests(NamedTuple):
    """The objects of a manifest file."""

    pods: list[V1Pod]
    """As written: without defaults, and not yet validated."""

    config_maps: dict[tuple[str, str], V1ConfigMap]
    """By namespace and name."""

    errors: list[str]
    """One for each document that could not be read; the others count nevertheless."""


def parse_manifests(content: bytes) -> Manifests:
    """Return the pods and config maps of a file's content."""
    manifests = Manifests([], {}, [])
    try:
        documents = list(read_documents(content))
    except ManifestError as error:
        return Manifests([], {}, [str(error)])
    for document in documents:
        _add_all(manifests, document)
    if not documents:
        manifests.errors.append("no object: the file is empty")
    return manifests


def pod_of(document: object) -> V1Pod:
    """Read a pod. Raises ManifestError."""
    return _decoded(V1Pod, document)


def config_map_of(document: object) -> V1ConfigMap:
    """Read and validate a config map (ValidateConfigMap). Raises ManifestError."""
    config_map = _decoded(V1ConfigMap, document)
    config_map.metadata.namespace = config_map.metadata.namespace or "default"
    errors = list(validate_metadata(config_map.metadata))
    for kind, keys in (("data", config_map.data), ("binaryData", config_map.binary_data)):
        for key in keys:
            errors += [invalid(f"{kind}[{key}]", key, flaw) for flaw in config_map_key_flaws(key)]
            if kind == "data" and key in config_map.binary_data:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    if errors:
        raise ManifestError(f"invalid config map: {aggregate(errors)}")
    return config_map


def _add_all(manifests: Manifests, document: object, path: str = "", kind: str = "") -> None:
    """Read one document into `manifests`, or all items of a list; an error begins with its item's `path`.

    `kubectl get -o yaml` prints a List. Items of a PodList are Pods (`kind`), and need not say so.
    """
    if isinstance(document, dict) and document.get("kind") in _LISTS:
        items = document.get("items")
        if not isinstance(items, list) or not items:
            flaw = invalid("items", items, "must be a list") if items else required("items")
            manifests.errors.append(f"{path}: {flaw}" if path else str(flaw))
            return
        for index, item in enumerate(items):
            of_kind = str(document["kind"]).removesuffix("List")
            _add_all(manifests, item, f"{path}{'.' if path else ''}items[{index}]", of_kind)
        return
    if kind and isinstance(document, dict) and not {"apiVersion", "kind"} & document.keys():
        document = {"apiVersion": "v1", "kind": kind, **document}
    try:
        _add(manifests, document)
    except ManifestError as error:
        manifests.errors.append(f"{path}: {error}" if path else str(error))


def _add(manifests: Manifests, document: object) -> None:
    """Read one document into `manifests`. Raises ManifestError."""
    if _kind_of(document) == "Pod":
        manifests.pods.append(pod_of(document))
        return
    config_map = config_map_of(document)
    key = (config_map.metadata.namespace, config_map.metadata.name)
    if key in manifests.config_maps:
        raise ManifestError(f'config map "{key[0]}/{key[1]}" is written twice')
    manifests.config_maps[key] = config_map


def _kind_of(document: object) -> str:
    """Return Pod or ConfigMap. Raises ManifestError for any other document."""
    if not isinstance(document, dict):
        raise ManifestError("expected an object with apiVersion and kind")
    if (place := _CONTROLLED.get(str(document.get("kind")))) is not None:
        raise ManifestError(
            f"kind: {document['kind']}: only Pods and ConfigMaps are read, since no controller works here. Write its"
            f" {place} as a document of its own, with `apiVersion: v1`, `kind: Pod` and a `metadata.name`"
        )
    for key, supported in (("apiVersion", ("v1",)), ("kind", ("ConfigMap", "Pod"))):
        value = document.get(key)
        if value is None or value == "":
            raise ManifestError(str(required(key)))
        if not isinstance(value, str):
            raise ManifestError(str(invalid(key, value, "must be a string")))
        if value not in supported:
            raise ManifestError(str(not_supported(key, value, supported)))
    return str(document["kind"])


def _decoded(kind: type[T], document: object) -> T:
    """Read a document strictly. Raises ManifestError: for a wrong type alone, or for all unknown keys."""
    try:
        decoded = kind.decode(document)
    except DecodeError as error:
        raise ManifestError(str(error)) from None
    except RecursionError:
        raise ManifestError("nested too deeply") from None
    if unknown := take_unknown_fields(decoded):
        raise ManifestError(", ".join(f"unknown field {quoted(path)}" for path in unknown))
    return decoded
