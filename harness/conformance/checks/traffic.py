"""Behaviour that only packets show: mapped ports and limited bandwidth (CONVENTIONS.md), and masquerading."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.conformance.catalogue import check
from harness.conformance.engine import expect
from harness.conformance.engine.requests import ABSENT
from harness.conformance.engine.sequences import addresses, declared
from harness.conformance.engine.traffic import (
    MACHINE_ADDRESS,
    NODE_ADDRESS,
    answered,
    first_ipv4,
    machine_beyond,
    seconds_to_receive,
    source_seen,
)
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.sentences import Level
from harness.conformance.subject import IN_POD
from skel.result import Result

_HOST_PORT: Final = 18080
_PORT: Final = 8080

_BYTES: Final = 1 << 20
_RATE: Final = 8_000_000
"""Bits per second; the bytes above then take a second, and some milliseconds without a limit."""
_BURST: Final = 256_000
"""Bits."""
_LEAST_SECONDS: Final = 0.5
_OWN_LIMITS: Final = ("ingressRate", "ingressBurst", "egressRate", "egressBurst")


@check("capability-port-mappings", "convention-port-mappings", profiles=IN_POD)
def capability_port_mappings(trial: Trial) -> None:
    """With the capability "portMappings", a port of the node leads to the pod's, and after DEL it does not."""
    mapping = {"hostPort": _HOST_PORT, "containerPort": _PORT, "protocol": "tcp"}
    _demand_mapped(trial, [mapping])


@check("containerd-host-ip", "habit-empty-host-ip", "habit-go-field-names", profiles=IN_POD)
def containerd_host_ip(trial: Trial) -> None:
    """A port mapping with HostIP empty, or 0.0.0.0 as in nerdctl, is for every address of the node."""
    mapping = {"HostPort": _HOST_PORT, "ContainerPort": _PORT, "Protocol": "tcp"}
    _demand_mapped(trial, [{**mapping, "HostIP": ""}, {**mapping, "HostIP": "0.0.0.0"}])  # noqa: S104 -- none listens


@check("capability-bandwidth", "convention-bandwidth", profiles=IN_POD)
def capability_bandwidth(trial: Trial) -> None:
    """With the capability "bandwidth", a pod receives and sends no faster than at the rates that the runtime names."""
    declared(trial, "bandwidth")
    for direction in ("ingress", "egress"):
        limit = {f"{direction}Rate": _RATE, f"{direction}Burst": _BURST}
        # No document says which has priority: the limits of the configuration itself, or the runtime's.
        config = {**dict.fromkeys(_OWN_LIMITS, ABSENT), "runtimeConfig": {"bandwidth": limit}}
        added = trial.add(config=config)
        seconds = _transfer(trial, expect.result(added, trial.version), direction)
        if seconds < _LEAST_SECONDS:
            took = f"{_BYTES} bytes in {seconds:.3f} s"
            raise ViolationError(f"{_BYTES} bytes in about {_BYTES * 8 / _RATE:.1f} s, with {limit}", took, added)
        expect.succeeded(trial.delete(config=config))
        trial.detach_others(trial.container)


# No plugin has to support the key.
@check("ip-masq", "well-known-keys", profiles=IN_POD, level=Level.CONVENTION)
def ip_masq(trial: Trial) -> None:
    """With "ipMasq": true, a machine beyond the node sees an address of the node when a pod connects to it."""
    if trial.subject.plugin.raw.get("ipMasq") is not True:
        raise NotApplicableError('the configuration does not have "ipMasq": true')
    machine = machine_beyond(trial)
    own = addresses(trial.attach())
    seen = source_seen(machine, MACHINE_ADDRESS, trial.container.netns)
    if not seen:
        raise NotApplicableError("the pod reaches no machine beyond the node by IPv4")
    if seen in own:
        raise ViolationError(f"a connection from the node's address {NODE_ADDRESS}", f"one from the pod's own, {seen}")


def _demand_mapped(trial: Trial, mappings: Sequence[Mapping[str, object]]) -> None:
    """Demand that each of the mappings, which differ in how they are written, leads to its pod until that is gone."""
    declared(trial, "portMappings")
    client = machine_beyond(trial)
    for mapping in mappings:
        container = trial.new_container()
        config = {"runtimeConfig": {"portMappings": [mapping]}}
        added = trial.add(container, config=config)
        address = first_ipv4(addresses(expect.result(added, trial.version)))
        if not answered(container.netns, _PORT, client, address, _PORT):
            raise NotApplicableError("the pod cannot be reached from beyond the node, by its own address either")
        if not answered(container.netns, _PORT, client, NODE_ADDRESS, _HOST_PORT):
            raise ViolationError(f"an answer from the pod at the port of the node, with {mapping}", "none", added)
        expect.succeeded(trial.delete(container, config=config))
        # If the plugin made the interface as well, the pod cannot answer any more.
        if trial.subject.before and answered(container.netns, _PORT, client, NODE_ADDRESS, _HOST_PORT):
            raise ViolationError(f"no answer at port {_HOST_PORT} of the node after DEL", "one from the pod")
        trial.detach_others(container)


def _transfer(trial: Trial, result: Result, direction: str) -> float:
    pod, node = trial.container.netns, trial.node_netns
    address = first_ipv4(addresses(result))
    try:
        if direction == "ingress":
            return seconds_to_receive(pod, address, node, _BYTES)
        gateways = [str(each.gateway) for each in result.ips if each.gateway]
        return seconds_to_receive(node, first_ipv4(gateways), pod, _BYTES)
    except OSError as error:
        raise NotApplicableError(f"the pod and its node do not reach each other: {error}") from None
