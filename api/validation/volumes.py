"""The API server's rules for volumes, in its order and words (ValidateVolumes in core/validation/validation.go)."""

from collections.abc import Iterator

from api.errors import FieldError, duplicate, forbidden
from api.pod import V1ConfigMapVolume, V1EmptyDirVolume, V1HostPathVolume, V1Volume
from api.quantity import parse_quantity


def validate_volumes(volumes: list[V1Volume], path: str) -> tuple[set[str], list[FieldError]]:
    """Return the names of the faultless volumes, which alone count for mounts, and the faults of the others."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        found = list(_of_volume(volume, f"{path}[{index}]", names))
        if found:
            errors += found
        else:
            names.add(volume.name)
    return names, errors


def _of_volume(volume: V1Volume, path: str, names: set[str]) -> Iterator[FieldError]:
    yield from volume.union_flaws(
        path, "volume type", empty_dir=_of_empty_dir, host_path=_of_host_path, config_map=_of_config_map
    )
    yield from volume.flaws(path, "name")
    if volume.name in names:
        yield duplicate(f"{path}.name", volume.name)


def _of_empty_dir(source: V1EmptyDirVolume, path: str) -> Iterator[FieldError]:
    if source.size_limit and parse_quantity(source.size_limit).nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _of_host_path(source: V1HostPathVolume, path: str) -> Iterator[FieldError]:
    yield from source.flaws(path, *(("path", "type") if source.path else ("path",)))


def _of_config_map(source: V1ConfigMapVolume, path: str) -> Iterator[FieldError]:
    yield from source.flaws(path, "name", "default_mode")
    for index, item in enumerate(source.items):
        yield from item.flaws(f"{path}.items[{index}]")
