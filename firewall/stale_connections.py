"""UDP flows that go on while ports of the host begin or cease to lead to a pod: the kernel forgets them."""

from fast_stdlib.typing import Iterable
from firewall.port_mapping import PROTOCOLS, ForwardedPort
from firewall.tables import Tables
from netlink.conntrack import Connection, connections_to, forget
from netlink.netfilter import Netfilter

_UDP = "udp"
_RTN_LOCAL = 2


def forget_misled(tables: Tables, mappings: Iterable[ForwardedPort]) -> None:
    """Forget flows to the ports that do not lead to the pod. Raises OSError.

    They began before the rules were there. Flows through this host to another host's port of that number stay.
    """
    netfilter = tables.netfilter()
    for mapping in mappings:
        flows = [
            flow
            for flow in _flows(netfilter, mapping)
            if (flow.answer_from, flow.answer_port) != (mapping.address, mapping.container_port)
        ]
        if flows:
            from netlink.rtnl import Rtnl

            with Rtnl() as host:
                routes = [host.route_to(flow.destination) for flow in flows]
            # To addresses of this host.
            own = [flow for flow, way in zip(flows, routes, strict=True) if way is not None and way.kind == _RTN_LOCAL]
            forget(netfilter, own)


def forget_of_pod(tables: Tables, mappings: Iterable[ForwardedPort]) -> None:
    """Forget flows that the ports have led to the pod. Raises OSError."""
    netfilter = tables.netfilter()
    for mapping in mappings:
        flows = _flows(netfilter, mapping)
        forget(netfilter, [flow for flow in flows if flow.answer_from == mapping.address])


def _flows(netfilter: Netfilter, mapping: ForwardedPort) -> list[Connection]:
    if mapping.protocol != _UDP:
        return []
    found = connections_to(netfilter, mapping.address.version, PROTOCOLS[_UDP], mapping.host_port)
    return [flow for flow in found if mapping.host_address in {None, flow.destination}]
