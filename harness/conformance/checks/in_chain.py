"""The use of a previous result in a chain, and the result of an IPAM plugin for the plugin that executes it."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.kernel import links, routes
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import Profile
from skel.result import Interface, IPConfig, Result, Route

_CHAINED: Final = {Profile.CHAINED}
_SENTENCES: Final = ("add-prev-result", "prev-result-output", "prev-result-equivalent")


@check("prev-result-interfaces", *_SENTENCES, profiles=_CHAINED)
def prev_result_interfaces(trial: Trial) -> None:
    """The interfaces of prevResult that still exist are in the result."""
    given, result = _given_and_made(trial)
    there = {trial.container.netns: set(links(trial.container.netns)), "": set(links(trial.node_netns))}
    wanted = [each for each in given.interfaces if each.name in there.get(each.sandbox, ())]
    _demand("interfaces", map(_place, wanted), map(_place, result.interfaces))


@check("prev-result-ips", *_SENTENCES, profiles=_CHAINED)
def prev_result_ips(trial: Trial) -> None:
    """The addresses of prevResult that still exist are in the result, with a gateway and the interface they had."""
    given, result = _given_and_made(trial)
    there = {address.ip for link in links(trial.container.netns).values() for address in link.addresses}
    wanted = [each for each in given.ips if each.address.ip in there]
    _demand("ips", (str(each.address) for each in wanted), (str(each.address) for each in result.ips))
    made = {each.address: each for each in result.ips}
    for each in wanted:
        if each.gateway and not made[each.address].gateway:
            raise ViolationError(f"a gateway for {each.address}, such as {each.gateway} in prevResult", "none")
        before, after = _interface(given, each), _interface(result, made[each.address])
        if after and before != after:
            raise ViolationError(f"{each.address} to be an address of {before}, as in prevResult", f"one of {after}")


@check("prev-result-routes", *_SENTENCES, profiles=_CHAINED)
def prev_result_routes(trial: Trial) -> None:
    """The routes of prevResult that still exist are in the result."""
    given, result = _given_and_made(trial)
    there = {(each.dst, each.gw) for each in routes(trial.container.netns)}
    anyhow = {dst for dst, _ in there}
    wanted = [
        each for each in given.routes if (each.dst, str(each.gw)) in there or (not each.gw and each.dst in anyhow)
    ]
    told: dict[int, str] = {each.address.version: str(each.gateway) for each in given.ips if each.gateway}
    # A gateway may be made explicit, and one that the addresses tell may be left out: the route is the same.
    any_gateway = {each.dst for each in wanted if not each.gw and each.dst.version not in told}
    _demand("routes", *([_path(each, told, any_gateway) for each in found] for found in (wanted, result.routes)))


@check("prev-result-dns", *_SENTENCES, profiles=_CHAINED)
def prev_result_dns(trial: Trial) -> None:
    """The resolver settings of prevResult are in the result, or others that the plugin has put in their place."""
    trial.prepare(trial.container)
    given = trial.prev_result()
    dns = {"nameservers": ["192.0.2.53"], "search": ["example.org"], "options": ["ndots:2"]}
    execution = trial.add(prev_result={**given, "dns": dns} if isinstance(given, dict) else {"dns": dns})
    result = expect.result(execution, trial.version)
    if not result.dns:
        raise ViolationError(f'"dns": {json.dumps(dns)}, as in prevResult', "none", execution)


@check("ipam-abbreviated", "ipam-abbreviated", profiles={Profile.IPAM})
def ipam_abbreviated(trial: Trial) -> None:
    """The result of an IPAM plugin has no interfaces, and its ips name none."""
    execution = trial.add()
    said = expect.document(expect.succeeded(execution), "a result object on standard output")
    if said.get("interfaces"):
        raise ViolationError("no interfaces in the result", json.dumps(said["interfaces"]), execution)
    ips = said.get("ips")
    for ip in ips if isinstance(ips, list) else []:
        if isinstance(ip, dict) and ip.get("interface") is not None:
            raise ViolationError('no "interface" in ips', json.dumps(ip), execution)


@check("ipam-gives-addresses", "ipam-determines", "add-result-ips", profiles={Profile.IPAM})
def ipam_gives_addresses(trial: Trial) -> None:
    """The result of an IPAM plugin has an address at least."""
    result = trial.attach()
    if not result.ips:
        raise ViolationError("an address in the result", "none")


def _given_and_made(trial: Trial) -> tuple[Result, Result]:
    """Return the prevResult of ADD, and the result that ADD made of it."""
    trial.prepare(trial.container)
    if trial.prev_result() is None:
        raise NotApplicableError("no plugin before it in the list, and so no prevResult")
    given = Result.decode_any(trial.prev_result())
    return given, trial.attach()


def _demand(what: str, wanted: Iterable[str], found: Iterable[str]) -> None:
    """Demand that each wanted text is found, as often as it is wanted; there may be more."""
    seen = list(found)
    rest = list(seen)
    for each in wanted:
        if each not in rest:
            raise ViolationError(f"{each} among the {what}, as in prevResult", ", ".join(seen) or "none")
        rest.remove(each)


def _place(interface: Interface) -> str:
    return f"{interface.name} {'in the container' if interface.sandbox else 'on the node'}"


def _path(route: Route, gateways: Mapping[int, str], any_gateway: Collection[object]) -> str:
    """Return a route in words, with the gateway of the addresses of its family if it has none of its own.

    Those of destinations in `any_gateway` are told without one.
    """
    gateway = "" if route.dst in any_gateway else str(route.gw or gateways.get(route.dst.version, ""))
    return f"{route.dst} via {gateway}" if gateway else str(route.dst)


def _interface(result: Result, ip: IPConfig) -> str:
    """Return the name of the interface that an address is for, empty if the result does not name one."""
    if ip.interface is None or not 0 <= ip.interface < len(result.interfaces):
        return ""
    return result.interfaces[ip.interface].name
