"""The API server's rules for volumes, in its order and words (ValidateVolumes in core/validation/validation.go)."""

from collections.abc import Iterator
from typing import Final

from api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from api.names import flaws_at, label_flaws, local_path_flaws, without_backsteps_flaws
from api.pod import V1ConfigMapVolume, V1EmptyDirVolume, V1HostPathVolume, V1KeyToPath, V1Volume
from api.quantity import parse_quantity

_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_LAST_MODE: Final = 0o777
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


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
    yield from _of_sources(volume, path)
    if not volume.name:
        yield required(f"{path}.name")
    else:
        yield from flaws_at(f"{path}.name", volume.name, label_flaws)
    if volume.name in names:
        yield duplicate(f"{path}.name", volume.name)


def _of_sources(volume: V1Volume, path: str) -> Iterator[FieldError]:
    sources = 0
    for key, source in (
        ("emptyDir", volume.empty_dir),
        ("hostPath", volume.host_path),
        ("configMap", volume.config_map),
    ):
        if source is None:
            continue
        sources += 1
        if sources > 1:
            yield forbidden(f"{path}.{key}", "may not specify more than 1 volume type")
        else:
            yield from _of_source(source, f"{path}.{key}")
    if not sources:
        yield required(path, "must specify a volume type")


def _of_source(source: V1EmptyDirVolume | V1HostPathVolume | V1ConfigMapVolume, path: str) -> Iterator[FieldError]:
    if isinstance(source, V1EmptyDirVolume):
        if source.size_limit and parse_quantity(source.size_limit).nano < 0:
            yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif isinstance(source, V1HostPathVolume):
        yield from _of_host_path(source, path)
    else:
        yield from _of_config_map(source, path)


def _of_host_path(source: V1HostPathVolume, path: str) -> Iterator[FieldError]:
    if not source.path:
        yield required(f"{path}.path")
        return
    yield from flaws_at(f"{path}.path", source.path, without_backsteps_flaws)
    if source.type not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", source.type, _HOST_PATH_TYPES)


def _of_config_map(source: V1ConfigMapVolume, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name")
    yield from _of_mode(source.default_mode, f"{path}.defaultMode")
    for index, item in enumerate(source.items):
        yield from _of_item(item, f"{path}.items[{index}]")


def _of_item(item: V1KeyToPath, path: str) -> Iterator[FieldError]:
    if not item.key:
        yield required(f"{path}.key")
    if not item.path:
        yield required(f"{path}.path")
    yield from flaws_at(f"{path}.path", item.path, local_path_flaws)
    yield from _of_mode(item.mode, f"{path}.mode")


def _of_mode(mode: int | None, path: str) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= _LAST_MODE:
        yield invalid(path, mode, _MODE)
