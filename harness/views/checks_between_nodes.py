"""Faults of the ways to pods of other nodes, on a node that has the routes or the tunnel of this project's agent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from harness.views.attachments import KnownAttachment
from harness.views.checks_node import (
    forward_stop,
    forwarding_fault,
    forwarding_off,
    is_by_own_rule,
    leaving,
    masquerade_exceptions,
)
from harness.views.nft_ruleset import Rules
from harness.views.nft_values import Address
from harness.views.node_state import Fault, NodeState, pod_addresses
from harness.views.tunnels import AGENT_PROTOCOL, Tunnel
from netlink.kinds import PAIRS, VXLAN_OVERHEAD
from netlink.link import Link
from netlink.routes import KernelRoute, Network

_MOST_RANGES: Final = 16
"""Ranges of other nodes for which the masquerading of a pod is looked at: rules rarely tell them apart."""
_AGENT: Final = "start the node's agent: it makes its routes and its tunnel again"


class _Way(NamedTuple):
    """A route to pods of another node."""

    mtu: int
    dst: Network
    link: str


def check_between_nodes(state: NodeState, told: Iterable[Fault]) -> Iterator[Fault]:
    """Yield faults of routes and tunnels to other nodes, without those that `told` has."""
    tunnels = {tunnel.link.ifindex for tunnel in state.tunnels}
    routes = [
        route
        for route in state.here.main_routes()
        if route.gateway is not None and (route.protocol == AGENT_PROTOCOL or route.ifindex in tunnels)
    ]
    known = {(fault.check, fault.subject) for fault in told}
    for tunnel in state.tunnels:
        yield from _tunnel(state, tunnel, [route for route in routes if route.ifindex == tunnel.link.ifindex])
    for fault in (*_stopped(state, routes), *_pods(state, routes)):
        if (fault.check, fault.subject) not in known:
            yield fault


def _tunnel(state: NodeState, tunnel: Tunnel, routes: Sequence[KernelRoute]) -> Iterator[Fault]:
    link, local = tunnel.link, tunnel.settings.local
    cause = "another program removed it, or the agent was ended in the middle of a change"
    if not link.up:
        what = f"{link.name}, the tunnel to other nodes, is down"
        yield Fault("tunnel-down", link.name, (), what, "another program set it down", _AGENT)
        return
    used = {tunnel.neighbours.get(route.gateway) for route in routes if route.gateway is not None}
    for route in routes if not tunnel.asks else ():
        if route.gateway is not None and (lack := tunnel.lack(route.gateway)):
            what = f"packets to {route.dst}, pods of another node, are dropped: {lack}"
            yield Fault("tunnel-entry-missing", str(route.dst), (), what, cause, _AGENT)
    for mac, end in tunnel.ends.items() if not tunnel.asks else ():
        # Without its neighbour, the MAC of a route is unknown.
        if mac not in used and None not in used:
            what = f"no route leads to {end}, an end of {link.name} (MAC {mac})"
            yield Fault("tunnel-route-missing", mac, (), what, cause, _AGENT)
    below = state.link_with(str(local))
    if local is not None and below is not None and link.mtu + VXLAN_OVERHEAD[local.version] > below.mtu:
        most = below.mtu - VXLAN_OVERHEAD[local.version]
        what = f"{link.name} has MTU {link.mtu}, and {most} bytes fit into a packet of {below.name}"
        cause = "the MTU of a link was changed: large packets are fragmented or lost"
        smaller = state.commands.ip(f"link set {link.name} mtu {most}")
        yield Fault("mtu-between-nodes", link.name, (), what, cause, smaller)


def _stopped(state: NodeState, routes: Iterable[KernelRoute]) -> Iterator[Fault]:
    """Find what keeps packets of other nodes from being forwarded; one range stands for all behind a link."""
    ranges = {(route.ifindex, route.dst.version): route.dst for route in routes}
    for (ifindex, version), dst in ranges.items():
        link = state.here.name(ifindex)
        if key := forwarding_off(state, link, version):
            yield forwarding_fault(state, key, (), "other nodes' pods")
        if state.ruleset is not None:
            yield from _dropped(state.ruleset, dst, link)


def _dropped(rules: Rules, dst: Network, link: str) -> Iterator[Fault]:
    for words, is_reply in (("packets from", False), ("replies to", True)):
        stop = forward_stop(rules, dst.network_address, link, is_reply=is_reply)
        if stop is not None:
            what = f"chain {stop.chain} drops {words} {dst}, pods of another node: {stop.rule}"
            remedy = "admit the ranges of all nodes' pods there"
            yield Fault("firewall-drops", stop.chain, (), what, "a rule or policy of another program", remedy)
            return


def _pods(state: NodeState, routes: Iterable[KernelRoute]) -> Iterator[Fault]:
    """Find pods whose packets to other nodes are too large, or lose their source address."""
    links = {link.ifindex: link for link in state.here.links}
    ways: dict[int, list[_Way]] = {}
    for route in routes:
        if (link := links.get(route.ifindex)) is not None:
            ways.setdefault(route.dst.version, []).append(_Way(route.mtu or link.mtu, route.dst, link.name))
    narrowest = {version: min(each, key=lambda way: way.mtu) for version, each in ways.items()}
    for attachment in state.living if ways else ():
        ends = state.ends(attachment)
        if ends.inside is None or ends.outside is None or ends.outside.kind not in PAIRS:
            continue
        addresses = [each.ip for each in pod_addresses(attachment) if each.version in ways]
        own = [narrowest[address.version] for address in addresses]
        smaller = min((way for way in own if way.mtu < ends.inside.mtu), key=lambda way: way.mtu, default=None)
        if smaller is not None:
            yield _mtu(attachment, ends.inside, smaller)
        for address in addresses:
            if state.ruleset is not None:
                yield from _masqueraded(state.ruleset, attachment, address, ways[address.version][:_MOST_RANGES])


def _mtu(attachment: KnownAttachment, inside: Link, way: _Way) -> Fault:
    what = f"{inside.name} of {attachment.name} has MTU {inside.mtu}, and {way.link} to {way.dst} has {way.mtu}"
    cause = "larger packets to other nodes are refused (fragmentation needed), or lost if a firewall drops that"
    remedy = f'"mtu": {way.mtu} in the network list, then make the pods again'
    pod = (attachment.pod or attachment.container_id,)
    return Fault("mtu-between-nodes", attachment.name, pod, what, cause, remedy)


def _masqueraded(rules: Rules, attachment: KnownAttachment, address: Address, ways: Iterable[_Way]) -> Iterator[Fault]:
    excepted = [network for _, network in masquerade_exceptions(attachment)]
    for way in ways:
        target = way.dst.network_address
        decision = leaving(rules, address, target, way.link)
        if is_by_own_rule(decision) and any(target in network for network in excepted):
            continue  # the fault is `exception-lost`
        if decision.packet.source != address:
            whose = f"packets of {attachment.name} to {way.dst}, pods of another node"
            what = f"{whose}, lose the address {address}: {decision.matched[-1].chain}"
            cause = "a rule masquerades them, as ipMasq does, without an exception for other nodes' pods"
            remedy = '"ipMasqExcept" with the ranges of all nodes\' pods in the network list, then make the pods again'
            pod = (attachment.pod or attachment.container_id,)
            yield Fault("masquerade-between-nodes", str(address), pod, what, cause, remedy)
            return
