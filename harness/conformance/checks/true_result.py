"""The truth of ADD's result: each interface and address in it, compared with the kernel's state."""

from collections.abc import Iterator
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine.added_objects import previous_result
from harness.conformance.engine.kernel import KernelLink, links, tentative_addresses
from harness.conformance.engine.sequences import RESULT_LISTS_SINCE, check_of_result
from harness.conformance.engine.traffic import host_answers
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import IN_POD, Profile
from skel.result import Interface, Result

_MAKES_GATEWAY: Final = ("isGateway", "isDefaultGateway")
_MTU_SINCE: Final = "1.1.0"


@check("add-tells-interfaces", "add-result-interfaces", profiles=IN_POD, needs=("add-sandbox",))
def add_tells_interfaces(trial: Trial) -> None:
    """The result lists every interface that ADD has made, in the container and on the node."""
    trial.warm_up()
    trial.prepare(trial.container)
    places = {"in the container": trial.container.netns, "on the node": trial.node_netns}
    before = {where: set(links(netns)) for where, netns in places.items()}
    result = trial.attach()
    for where, netns in places.items():
        listed = {each.name for each in result.interfaces if bool(each.sandbox) == (netns == trial.container.netns)}
        made = set(links(netns)) - before[where]
        if made - listed:
            expected = f"{', '.join(sorted(made))} among the interfaces, as made {where}"
            raise ViolationError(expected, ", ".join(sorted(listed)) or "none")


@check_of_result("add-sandbox", "add-result-sandbox", profiles=IN_POD)
def add_sandbox(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """An interface in the container has the value of CNI_NETNS as its sandbox."""
    container = trial.container
    sandboxes: dict[str, set[str]] = {}
    for each in result.interfaces:
        sandboxes.setdefault(each.name, set()).add(each.sandbox)
    for name in links(container.netns):
        said = sandboxes.get(name, set())
        # An interface of the node may have the same name, unless it is CNI_IFNAME's.
        right = {container.netns} if name == container.ifname else {container.netns, ""}
        if said and not said & right:
            got = ", ".join(f'"{each}"' for each in sorted(said))
            yield ViolationError(f'"{container.netns}" as the sandbox of {name}', got)


@check_of_result(
    "add-interfaces-exist",
    "add-result-sandbox-host",
    "add-result-interfaces",
    profiles=IN_POD,
    needs=("add-sandbox",),
)
def add_interfaces_exist(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """Each interface of the result is in the place of its sandbox: the container, or the node if that is empty."""
    pod, node = links(trial.container.netns), links(trial.node_netns)
    for each in result.interfaces:
        # A socket or a device may stand in for a link.
        elsewhere = each.socket_path or each.pci_id or each.sandbox not in {"", trial.container.netns}
        if elsewhere and each.sandbox and each.name in node and each.name not in pod:
            yield ViolationError(f'"" as the sandbox of {each.name}, which is on the node', f'"{each.sandbox}"')
        if not elsewhere and each.name not in (pod if each.sandbox else node):
            where = "in the container" if each.sandbox else "on the node"
            there = ", ".join(pod if each.sandbox else node)
            yield ViolationError(f"{each.name} {where}, as its sandbox says", f"only {there} there")


@check_of_result("add-mac", "add-result-mac", "prev-result-output", profiles=IN_POD)
def add_mac(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The interfaces of the result have the hardware addresses that they have in the kernel."""
    for interface, link in _known_links(trial, result):
        in_pod = bool(interface.sandbox)
        if interface.mac.lower() != link.mac.lower() and (interface.mac or in_pod):
            yield ViolationError(f'"{link.mac}" as the mac of {interface.name}', f'"{interface.mac}"')


@check_of_result("add-mtu", "add-result-keys", "prev-result-output", profiles=IN_POD, since=_MTU_SINCE)
def add_mtu(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """If the result has the MTU of an interface, it is the kernel's."""
    for interface, link in _known_links(trial, result):
        if interface.mtu and interface.mtu != link.mtu:
            yield ViolationError(f"{link.mtu} as the mtu of {interface.name}", str(interface.mtu))


@check_of_result("add-addresses", "add-result-ips", profiles=IN_POD, since=RESULT_LISTS_SINCE)
def add_addresses(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The addresses of the result are those that the interfaces in the container have."""
    pod = links(trial.container.netns)
    for ip in result.ips:
        interface = _interface_of(result, ip.interface)
        if interface is None or interface.sandbox != trial.container.netns or interface.name not in pod:
            continue  # assigned outside of the container
        has = [each.ip for each in pod[interface.name].addresses]
        if ip.address.ip not in has:
            there = ", ".join(map(str, has)) or "none"
            yield ViolationError(f"{ip.address.ip} on {interface.name}, as the result says", f"{there} there")
    said = {ip.address.ip for ip in result.ips}
    for link in pod.values():
        # IPv6 gives each link an address by itself.
        given = [each.ip for each in link.addresses if not each.ip.is_loopback and not each.ip.is_link_local]
        for address in given:
            if address not in said:
                listed = ", ".join(map(str, said)) or "none"
                yield ViolationError(f"{address} among the ips, since {link.name} has it", listed)


@check_of_result("add-prefix-length", "add-result-address", "add-result-ips", profiles=IN_POD, since=RESULT_LISTS_SINCE)
def add_prefix_length(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The addresses of the result have the prefix lengths that they have in the container."""
    pod = links(trial.container.netns).values()
    for ip in result.ips:
        there = [each for link in pod for each in link.addresses if each.ip == ip.address.ip]
        if there and ip.address not in there:
            yield ViolationError(f"{there[0]} among the ips, as in the container", str(ip.address))


def _known_links(trial: Trial, result: Result) -> Iterator[tuple[Interface, KernelLink]]:
    """Yield the interfaces of a result that are in the container or on the node, each with its link in the kernel."""
    places = {trial.container.netns: links(trial.container.netns), "": links(trial.node_netns)}
    for interface in result.interfaces:
        link = places.get(interface.sandbox, {}).get(interface.name)
        if link is not None:
            yield interface, link


def _interface_of(result: Result, index: int | None) -> Interface | None:
    """Return the interface that an address is for; the only one in a container, if the result names none."""
    if index is not None:
        return result.interfaces[index] if 0 <= index < len(result.interfaces) else None
    inside = [each for each in result.interfaces if each.sandbox]
    return inside[0] if len(inside) == 1 else None


@check("add-gateway-answers", "interface-connectivity", profiles={Profile.INTERFACE}, since=RESULT_LISTS_SINCE)
def add_gateway_answers(trial: Trial) -> None:
    """A gateway that the configuration has the plugin make, or that the node has, answers the pod."""
    result = trial.attach()
    makes = any(trial.subject.plugin.raw.get(key) is True for key in _MAKES_GATEWAY)
    on_node = {address.ip for link in links(trial.node_netns).values() for address in link.addresses}
    gateways = {each.gateway for each in result.ips if each.gateway and (makes or each.gateway in on_node)}
    if not gateways:
        raise NotApplicableError("the result has no gateway that the plugin has to make")
    for gateway in sorted(map(str, gateways)):
        if not host_answers(trial.container.netns, gateway):
            raise ViolationError(f"an answer of the gateway {gateway} to the pod", "none")


@check("add-addresses-usable", "skel-addresses-settled", profiles=IN_POD, since=RESULT_LISTS_SINCE)
def add_addresses_usable(trial: Trial) -> None:
    """The pod can use its addresses at the end of ADD: the kernel does not still look for another owner of them."""
    trial.prepare(trial.container)
    given = previous_result(trial, trial.container)
    result = trial.attach()
    waiting = tentative_addresses(trial.container.netns)
    told = {each.address.ip for each in result.ips} - {each.address.ip for each in given.ips}
    if unusable := sorted(map(str, told & waiting)):
        raise ViolationError("addresses that the pod can use at the end of ADD", f"tentative: {', '.join(unusable)}")
