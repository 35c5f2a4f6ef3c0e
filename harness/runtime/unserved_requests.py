"""Host ports and bandwidth limits of pods whose network lists have no plugin for them.

libcni drops an argument of a capability that no plugin of the list declares (CONVENTIONS.md, "Dynamic Plugin specific
fields"). The ADD succeeds, so the pod runs without the host port or the limit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from harness.libcni.networks import NetworkError, parse_network_list
from harness.runtime.pod_record import PodNetwork

PORT_MAPPINGS: Final = "portMappings"
BANDWIDTH: Final = "bandwidth"
POD_ANNOTATIONS: Final = "io.kubernetes.cri.pod-annotations"
"""The capability whose argument is all annotations of the pod."""
INGRESS_ANNOTATION: Final = "kubernetes.io/ingress-bandwidth"
EGRESS_ANNOTATION: Final = "kubernetes.io/egress-bandwidth"

_LOOPBACK: Final = "lo"
"""containerd hands all arguments to the list of `lo` as well, which needs none."""


class UnservedRequest(NamedTuple):
    """Arguments of a capability that no plugin of a network list declares."""

    network: str
    source: str
    """The file of the list; empty if it is not known."""
    plugins: tuple[str, ...]
    """The types of the list's plugins."""
    capability: str
    asked: tuple[str, ...]
    """`host port 8080/tcp`, `annotation kubernetes.io/ingress-bandwidth=10M`."""

    def in_words(self) -> str:
        """Return a sentence that names the arguments, the network and the capability."""
        have = "has" if len(self.asked) == 1 else "have"
        lacking = f"no plugin of network {self.network} has the capability {self.capability}"
        return f"{', '.join(self.asked)} {have} no effect: {lacking}"


def unserved_requests(networks: Iterable[PodNetwork]) -> list[UnservedRequest]:
    """Return the host ports and bandwidth limits of one pod that none of its plugins gets.

    An argument that several of the pod's networks get is served if one of them has the capability. A list that cannot
    be read is left out.
    """
    served: list[tuple[str, object]] = []
    found: list[tuple[object, UnservedRequest]] = []
    for network in networks:
        if network.ifname == _LOOPBACK:
            continue
        with suppress(NetworkError):
            plugins = parse_network_list(network.config.encode()).plugins
            declared = frozenset[str]().union(*(plugin.capabilities for plugin in plugins))
            types = tuple(plugin.type for plugin in plugins)
            for capability, words in _WORDS.items():
                argument = network.capability_args.get(capability)
                if capability in declared:
                    served.append((capability, argument))
                elif asked := tuple(words(argument, network.capability_args)):
                    request = UnservedRequest(network.name, network.source, types, capability, asked)
                    found.append((argument, request))
    return [request for argument, request in found if (request.capability, argument) not in served]


def host_ports(argument: object) -> Iterator[tuple[int, str]]:
    """Yield the ports of the node and their protocols in an argument of portMappings that may be another runtime's."""
    for each in argument if isinstance(argument, list) else ():
        mapping = _in_small_letters(each)
        port = mapping.get("hostport")
        if isinstance(port, int) and port:
            yield port, str(mapping.get("protocol") or "tcp").lower()


def _limits(argument: object, others: Mapping[str, object]) -> Iterator[str]:
    limits, annotations = _in_small_letters(argument), others.get(POD_ANNOTATIONS)
    for direction, annotation in (("ingress", INGRESS_ANNOTATION), ("egress", EGRESS_ANNOTATION)):
        if rate := limits.get(f"{direction}rate"):
            text = str(annotations.get(annotation, "")) if isinstance(annotations, dict) else ""
            is_annotation = _rate(text) == rate  # the limit may also be another network's own
            yield f"annotation {annotation}={text}" if is_annotation else f"{direction} limit of {rate} bit/s"


_WORDS: Final[Mapping[str, Callable[[object, Mapping[str, object]], Iterator[str]]]] = {
    PORT_MAPPINGS: lambda argument, _: (f"host port {port}/{protocol}" for port, protocol in host_ports(argument)),
    BANDWIDTH: _limits,
}


def _rate(text: str) -> int | None:
    from api.quantity import QuantityError, quantity_value

    try:
        return quantity_value(text)
    except QuantityError:
        return None


def _in_small_letters(value: object) -> dict[str, object]:
    """Return an object's keys in small letters: containerd writes `HostPort`, CRI-O and Podman `hostPort`."""
    return {str(key).lower(): each for key, each in value.items()} if isinstance(value, dict) else {}
