"""The result of ADD as a document: exactly one, in the terms of SPEC.md section 5."""

import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.kernel import links
from harness.conformance.engine.sequences import check_of_result
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import IN_POD
from harness.libcni.execute import Execution
from skel.result import Result

_DNS: Final = {
    "nameservers": ["192.0.2.53", "2001:db8::53"],
    "domain": "pods.example.org",
    "search": ["pods.example.org", "example.org"],
    "options": ["ndots:2"],
}


@check("add-prints-result", "add-result", "result-output", "result-json", "habit-stderr-text")
def add_prints_result(trial: Trial) -> None:
    """ADD prints one JSON object, its result, and nothing else on standard output."""
    execution = trial.add()
    expect.succeeded(execution)
    said = expect.document(execution, "one JSON object on standard output, the result")
    if "code" in said and "msg" in said:
        raise ViolationError("a result, since ADD ended with exit code 0", "an error object", execution)


@check("add-repeats-cni-version", "add-result-version")
def add_repeats_cni_version(trial: Trial) -> None:
    """The result has the cniVersion of the configuration."""
    execution = trial.add()
    version = _document(execution).get("cniVersion")
    if version != trial.version:
        raise ViolationError(f'"cniVersion": "{trial.version}"', f'"cniVersion": {json.dumps(version)}', execution)


@check_of_result("add-kinds-of-values", "add-result-keys", "add-result-dns")
def add_kinds_of_values(_: Trial, result: Result) -> Iterator[ViolationError]:
    """The values in the result are of the kinds that the specification gives them, name servers addresses."""
    for server in result.dns.nameservers:
        try:
            ipaddress.ip_address(server)
        except ValueError:
            yield ViolationError(f"addresses as nameservers, not {json.dumps(server)}", "a name")


@check("add-cidr-notation", "add-result-address", "add-result-route-dst")
def add_cidr_notation(trial: Trial) -> None:
    """Addresses, and destinations of routes, are in CIDR notation."""
    execution = trial.add()
    for what, text in _addresses_and_destinations(_document(execution)):
        if not isinstance(text, str) or not _is_cidr(text):
            raise ViolationError(f"an address with a prefix length as {what}", json.dumps(text), execution)


@check_of_result("add-gateway", "add-result-gateway")
def add_gateway(_: Trial, result: Result) -> Iterator[ViolationError]:
    """The gateway of an address is another address of the same family."""
    for ip in result.ips:
        address, gateway = ip.address.ip, ip.gateway
        if gateway is not None and (gateway.version != address.version or gateway == address):
            yield ViolationError(f"a gateway of the family of {address}, and another address", str(gateway))


@check_of_result("add-interface-index", "add-result-interface-index", profiles=IN_POD, needs=("add-sandbox",))
def add_interface_index(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """Each address has the index of its interface in the list of interfaces."""
    if not result.interfaces:
        raise NotApplicableError("the result has no interfaces")
    pod, node = links(trial.container.netns), links(trial.node_netns)
    for ip in result.ips:
        if ip.interface is None or not 0 <= ip.interface < len(result.interfaces):
            expected = f"an index into the interfaces beside the address {ip.address}"
            yield ViolationError(
                expected, f'"interface": {json.dumps(ip.interface)}, and {len(result.interfaces)} interfaces'
            )
            continue
        named = result.interfaces[ip.interface]
        having = [name for name, link in pod.items() if link.has(ip.address.ip)]
        # An address outside of the container is one of the node's, or beyond this machine.
        place = pod if named.sandbox else node
        if having and not (named.name in place and place[named.name].has(ip.address.ip)):
            expected = f"the index of {' or '.join(having)} in the container beside its address {ip.address.ip}"
            where = "in a sandbox" if named.sandbox else "on the node"
            yield ViolationError(expected, f'"interface": {ip.interface}, which is {named.name} {where}')


@check("add-configured-dns", "well-known-keys", "add-result-dns")
def add_configured_dns(trial: Trial) -> None:
    """A plugin that reads the well-known key dns hands its settings on as they are."""
    execution = trial.add(config={"dns": _DNS})
    found = expect.result(execution, trial.version).dns.encode()
    if not set(_DNS["nameservers"]) & set(_texts(found.get("nameservers"))):
        raise NotApplicableError("the plugin does not read dns: its result has other name servers, or none")
    for key, configured in _DNS.items():
        # An IPAM plugin's settings may be added; there can be one domain only.
        lost = [each for each in _texts(configured) if each not in _texts(found.get(key))]
        if lost:
            raise ViolationError(f'"{key}": {json.dumps(configured)} in dns', json.dumps(found.get(key)), execution)


def _document(execution: Execution) -> Mapping[str, Any]:
    return expect.document(expect.succeeded(execution), "a result object on standard output")


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [expect.any_case(each) for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _addresses_and_destinations(said: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    [top] = _objects([said])
    families = _objects([top.get("ip4"), top.get("ip6")])
    yield from (("address", each.get("ip")) for each in families)
    yield from (("address", each.get("address")) for each in _objects(top.get("ips")))
    for holder in (top, *families):
        yield from (("dst of a route", route.get("dst")) for route in _objects(holder.get("routes")))
