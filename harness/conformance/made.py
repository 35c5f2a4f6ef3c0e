"""The objects that the plugin under test has made for its result, and ways to remove or change them from outside."""

from typing import Any

from harness.conformance.circumstances import happened
from harness.conformance.trial import Container, Trial
from harness.conformance.verdict import NotApplicableError
from skel.result import IPConfig, Result, Route

__all__ = ["own_addresses", "own_interface", "own_routes", "previous", "remove_route", "result_copy", "set_mac"]


def result_copy(trial: Trial) -> dict[str, Any]:
    """Return the result of the trial's container, which is attached, as a document for changes in exact spelling."""
    return Result.decode_any(trial.result_document()).encode_as(trial.version)


def own_interface(trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
    """Return the container's interface in a result, with its hardware address. Raises NotApplicableError."""
    for each in result.get("interfaces") or []:
        if each.get("name") == trial.container.ifname and each.get("sandbox") and each.get("mac"):
            found: dict[str, Any] = each
            return found
    raise NotApplicableError("the result has no hardware address of the container's interface")


def previous(trial: Trial, container: Container) -> Result:
    """Return the result of the plugins before the one under test, an empty one if it is the first."""
    given = trial.prev_result(container)
    return Result() if given is None else Result.decode_any(given)


def own_addresses(trial: Trial, container: Container) -> list[IPConfig]:
    """Attach a container, and return the addresses of its interface that the plugin under test has given."""
    result = trial.attach(container)
    earlier = [ip.address for ip in previous(trial, container).ips]
    places = [(each.name, each.sandbox) for each in result.interfaces]
    own = (container.ifname, container.netns)
    return [
        ip
        for ip in result.ips
        if ip.address not in earlier and ip.interface is not None and own in places[ip.interface : ip.interface + 1]
    ]


def own_routes(trial: Trial, container: Container) -> list[Route]:
    """Attach a container, and return the routes that the plugin under test has made."""
    result = trial.attach(container)
    earlier = [route.dst for route in previous(trial, container).routes]
    return [route for route in result.routes if route.dst not in earlier]


def remove_route(trial: Trial, container: Container, route: Route) -> bool:
    """Remove a route from the kernel without the plugin's knowledge; False if the kernel has no such route."""
    table = [] if route.table is None else ["table", str(route.table)]
    family = f"-{route.dst.version}"
    return happened(trial, container.netns, "ip", family, "route", "del", str(route.dst), *table)


def set_mac(trial: Trial, mac: str) -> bool:
    """Give the interface of the trial's container another hardware address; False if it does not accept one."""
    container = trial.container
    return happened(trial, container.netns, "ip", "link", "set", "dev", container.ifname, "address", mac)
