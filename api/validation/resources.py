"""The API server's rules for resources, in its order and words (validateResourceRequirements in core/validation)."""

from collections.abc import Iterator
from typing import Final

from api.container import V1Resources
from api.errors import FieldError, forbidden, invalid, required
from api.names import qualified_name_flaws
from api.quantity import Quantity, QuantityError, parse_quantity

_OF_CONTAINERS: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_OF_QUOTAS: Final = frozenset(
    (
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS),
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers"),
    )
)
_INTEGER: Final = frozenset(
    (
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)
_HUGE_PAGES: Final = "hugepages-"


def validate_resources(resources: V1Resources, path: str) -> Iterator[FieldError]:
    """Judge the limits and requests of a container."""
    limits = {name: parse_quantity(text) for name, text in resources.limits.items()}
    requests = {name: parse_quantity(text) for name, text in resources.requests.items()}
    for name, amount in limits.items():
        yield from _of_resource(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _of_resource(name, amount, f"{path}.requests[{name}]")
        yield from _of_request(name, amount, limits.get(name), path)
        yield from _of_pages(name, amount, f"{path}.requests[{name}]")
    named = limits.keys() | requests.keys()
    if any(map(_is_of_pages, named)) and not named & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _of_resource(name: str, amount: Quantity, path: str) -> Iterator[FieldError]:
    yield from _of_name(name, path)
    if amount.nano < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if (name in _INTEGER or _is_extended(name)) and amount.milli_value % 1000:
        yield invalid(path, str(amount), "must be an integer")
    if path.endswith(f".limits[{name}]"):
        yield from _of_pages(name, amount, path)


def _of_name(name: str, path: str) -> Iterator[FieldError]:
    """Judge the name of a resource (validateContainerResourceName)."""
    flaws = qualified_name_flaws(name)
    for flaw in flaws:
        yield invalid(path, name, flaw)
    plain = "/" not in name
    if not flaws and plain and name not in _OF_CONTAINERS | _OF_QUOTAS and _HUGE_PAGES not in name:
        yield invalid(path, name, "must be a standard resource type or fully qualified")
    if plain and name not in _OF_CONTAINERS and not _is_of_pages(name):
        yield invalid(path, name, "must be a standard resource for containers")
    elif not plain and not _is_native(name) and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _of_request(name: str, amount: Quantity, limit: Quantity | None, path: str) -> Iterator[FieldError]:
    """Judge a request beside its limit; huge pages and devices cannot be overcommitted."""
    divisible = _is_native(name) and not _is_of_pages(name)
    if limit is None:
        if not divisible:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif not divisible and amount.nano != limit.nano:
        yield invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
    elif amount.nano > limit.nano:
        yield invalid(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")


def _of_pages(name: str, amount: Quantity, path: str) -> Iterator[FieldError]:
    if not _is_of_pages(name):
        return
    try:
        size = parse_quantity(name.removeprefix(_HUGE_PAGES)).nano
    except QuantityError:
        size = 0
    if size <= 0 or amount.nano % size:
        yield invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _is_of_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Tell whether a resource is a device or the like of another vendor (IsExtendedResourceName)."""
    return not _is_native(name) and not name.startswith("requests.") and not qualified_name_flaws(f"requests.{name}")
