"""The objects that the plugin under test has made for its result, and ways to remove or change them from outside."""

from typing import Any

from harness.conformance.circumstances import happened
from harness.conformance.finding import NotApplicableError
from harness.conformance.kernel import Address, links
from harness.conformance.requests import TrialContainer
from harness.conformance.trial import Trial
from skel.result import Result, Route


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


def previous(trial: Trial, container: TrialContainer) -> Result:
    """Return the result of the plugins before the one under test, an empty one if it is the first."""
    given = trial.prev_result(container)
    return Result() if given is None else Result.decode_any(given)


def own_addresses(trial: Trial, container: TrialContainer) -> list[Address]:
    """Attach a container, and return the addresses that its interface has from the plugin under test.

    They are those of the result, as the kernel has them: a wrong index or prefix length in the result hides none.
    """
    result = trial.attach(container)
    told = {ip.address.ip for ip in result.ips} - {ip.address.ip for ip in previous(trial, container).ips}
    link = links(container.netns).get(container.ifname)
    return [each for each in link.addresses if each.ip in told] if link is not None else []


def own_routes(trial: Trial, container: TrialContainer) -> list[Route]:
    """Attach a container, and return the routes that the plugin under test has made."""
    result = trial.attach(container)
    earlier = [route.dst for route in previous(trial, container).routes]
    return [route for route in result.routes if route.dst not in earlier]


def remove_route(trial: Trial, container: TrialContainer, route: Route) -> bool:
    """Remove a route from the kernel without the plugin's knowledge; False if the kernel has no such route."""
    table = [] if route.table is None else ["table", str(route.table)]
    family = f"-{route.dst.version}"
    return happened(trial, container.netns, "ip", family, "route", "del", str(route.dst), *table)


def set_mac(trial: Trial, mac: str) -> bool:
    """Give the interface of the trial's container another hardware address; False if it does not accept one."""
    container = trial.container
    return happened(trial, container.netns, "ip", "link", "set", "dev", container.ifname, "address", mac)
