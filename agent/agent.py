"""The agent of one node: it follows the cluster's nodes, and keeps the kernel as planned."""

import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, closing
from functools import cached_property
from socket import AF_BRIDGE
from typing import Final, NamedTuple

from agent.kernel import PROTOCOL, Difference, Kernel, is_as_planned, sign_of_link
from agent.options import Options
from agent.peers import Address, Judgement, Network, Peer, is_within
from agent.plan import TUNNEL, Hop, Interface, Plan, Site, Ways, make_plan
from agent.surroundings import Surroundings
from netlink.addresses import address_in
from netlink.change_monitor import (
    RTM_DELLINK,
    RTM_DELNEIGH,
    RTM_DELROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    ChangeMonitor,
)
from netlink.link import Link, link_in
from netlink.namespace import Closing, Namespace
from netlink.neighbours import NUD_PERMANENT, neighbour_in
from netlink.routes import RT_TABLE_MAIN, KernelRoute, routes_in
from netlink.wire import HEADER, Frame

_FAMILY_AND_IFINDEX: Final = struct.Struct("=B3xi")
"""The beginning of struct ifinfomsg, ifaddrmsg and ndmsg."""


class Tally(NamedTuple):
    """What an agent has done; times are seconds since 1970, 0 for never."""

    comparisons: int = 0
    compared: float = 0.0
    changes: int = 0
    changed: float = 0.0

    def after(self, changes: int, *, compared: bool) -> "Tally":
        """Return the tally after so many changes more, with or without a comparison of all state."""
        now = time.time()
        return Tally(
            self.comparisons + compared,
            now if compared else self.compared,
            self.changes + changes,
            now if changes else self.changed,
        )


class Agent(Closing):
    """Routes and tunnels of one node. Not to be shared between threads, but for `plan`, `problems` and `tally`."""

    def __init__(
        self, options: Options, namespace: Namespace | None = None, say: Callable[[str], object] = lambda _: None
    ) -> None:
        """Open sockets in the node's network namespace, by default the thread's own. Raises OSError.

        `say` is told each change of the node that is neither a route nor a part of the tunnel.
        """
        self.options = options
        self._say = say
        with ExitStack() as on_failure:
            self._kernel = on_failure.enter_context(closing(Kernel(namespace)))
            self._monitor = on_failure.enter_context(closing(ChangeMonitor(namespace)))
            self._surroundings = Surroundings(options, namespace)
            on_failure.pop_all()
        self.tally = Tally()
        self.failure = ""
        """Why the last attempt to compare or to follow was given up; the loop sets it."""
        self._found: list[str] = []
        self._plan: Plan | None = None
        self._peers: dict[str, Peer] = {}
        self._uplinks: dict[int, Link] = {}
        self._expected: _Expected | None = None

    def close(self) -> None:
        """Close the sockets; the kernel's state stays."""
        self._kernel.close()
        self._monitor.close()
        self._surroundings.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable after an announcement of the kernel."""
        return self._monitor.fileno()

    @property
    def plan(self) -> Plan | None:
        """The wanted state, None before the first comparison."""
        return self._plan

    @property
    def problems(self) -> list[str]:
        """All that keeps nodes from being reached: of the plan, and of the kernel at the last comparison."""
        planned = map(str, self._plan.problems) if self._plan is not None else ()
        return [*planned, *self._found, *filter(None, [self.failure])]

    def compare(self, judgement: Judgement) -> list[str]:
        """Plan anew, and return the differences in words, one for each line; nothing is changed. Raises OSError.

        The problems are those of this comparison then.
        """
        plan = self._planned(judgement)
        self._set_plan(plan, judgement)
        if self.options.node not in judgement.peers:
            return []
        difference = self._kernel.difference(plan)
        steps, problems = self._surroundings.compare(plan)
        self._found = [*difference.problems, *problems]
        link = [f"{difference.tunnel} link {TUNNEL}"] if difference.tunnel else []
        return [*link, *map(str, difference.changes), *map(str, steps)]

    def take_back(self) -> None:
        """Remove the routes and the tunnel, and what `Surroundings.take_back` does. Raises OSError."""
        nothing = Plan(Site(Peer(self.options.node, (), {}), self.options.backend, None, 0, []), {}, [])
        difference = self._kernel.apply(nothing)
        for each in difference.changes:
            self._say(str(each))
        if difference.tunnel:
            self._say(f"{difference.tunnel} link {TUNNEL}")
        self._surroundings.take_back(self._say)

    def reconcile(self, judgement: Judgement) -> Difference:
        """Plan anew, and make the node's state that of the plan: routes first, the network list last. Raises OSError.

        Without this node's own Node nothing is changed: its name may be wrong, and its pods go on.
        """
        plan = self._planned(judgement)
        is_known = self.options.node in judgement.peers
        difference = self._kernel.apply(plan) if is_known else Difference("", [], [])
        self._set_plan(plan, judgement)
        changes = [str(each) for each in difference.changes]

        def note(step: str) -> None:
            changes.append(step)
            self._say(step)

        found = self._surroundings.apply(plan, note, has_routes=not difference.is_refused) if is_known else []
        self._found = [*difference.problems, *found]
        self.tally = self.tally.after(len(changes) + bool(difference.tunnel), compared=True)
        return difference

    def follow(self, judgement: Judgement, changed: Collection[str]) -> None:
        """Change the ways to some nodes, without a look at all of the kernel's state.

        That does for changes of other nodes after `reconcile`. Raises NetlinkError.
        """
        plan, own = self._plan, self.options.node
        if plan is None or own in changed or own not in judgement.peers:
            self.reconcile(judgement)
            return
        peers = {name: judgement.peers.get(name) for name in changed}
        on_link = self._kernel.on_link(_addresses(peer for peer in peers.values() if peer is not None))
        new: dict[str, Ways | None] = {
            name: plan.site.ways_to(peer, on_link) if peer is not None else None for name, peer in peers.items()
        }
        ways = {name: each for name, each in (plan.ways | new).items() if each is not None}
        after = Plan(plan.site, ways, judgement.problems)
        needs_tunnel = after.tunnel is not None
        if needs_tunnel != (plan.tunnel is not None) or (needs_tunnel and not self._kernel.tunnel):
            self.reconcile(judgement)
            return
        self._set_plan(after, judgement)
        self.tally = self.tally.after(len(new), compared=False)
        if any(self._kernel.change_ways(plan.ways.get(name), each) for name, each in new.items()):
            self.reconcile(judgement)

    def is_disturbed(self) -> bool:
        """Tell whether the kernel has announced something that differs from the plan. Raises NetlinkError."""
        frames = self._monitor.announcements()
        if frames is None or self._plan is None:
            return True
        if self._expected is None:
            nodes = _addresses(each for name, each in self._peers.items() if name != self.options.node)
            self._expected = _Expected(self._plan, self._kernel.tunnel, self._uplinks, nodes)
        return any(map(self._expected.is_contradicted, frames))

    def _planned(self, judgement: Judgement) -> Plan:
        own = judgement.peers.get(self.options.node)
        others = _addresses(each for each in judgement.peers.values() if each is not own)
        underlay = self._kernel.underlay(own, others)
        self._uplinks = {link.ifindex: link for link in underlay.own.values()}
        options = self.options
        return make_plan(judgement, options.node, options.backend, underlay, options.mtu)

    def _set_plan(self, plan: Plan, judgement: Judgement) -> None:
        self._plan = plan
        self._peers = judgement.peers
        self._expected = None


class _Expected:
    """A plan as announcements are compared with it."""

    def __init__(self, plan: Plan, tunnel: int, uplinks: dict[int, Link], nodes: list[Address]) -> None:
        self._plan = plan
        self._tunnel = tunnel
        self._uplinks = uplinks
        self._hops: dict[Network, Hop] = {}
        self._neighbours: dict[Address, str] = {}
        self._ends: dict[str, Address] = {}
        for ways in plan.ways.values():
            self._hops |= ways.hops
            self._neighbours |= ways.neighbours
            self._ends |= ways.ends
        self._watched = {*uplinks, tunnel, *(hop.ifindex for hop in self._hops.values())} - {0}
        self._addresses = nodes

    # These are sorted for another program's route alone: an agent's own changes come back to it far more often.

    @cached_property
    def _nodes(self) -> dict[int, list[int]]:
        addresses = self._addresses
        return {version: sorted(int(each) for each in addresses if each.version == version) for version in (4, 6)}

    @cached_property
    def _ranges(self) -> dict[int, list[Network]]:
        return {version: sorted(each for each in self._hops if each.version == version) for version in (4, 6)}

    def is_contradicted(self, frame: Frame) -> bool:
        """Tell whether an announcement is about something that the plan has in another way."""
        if frame.type in {RTM_NEWROUTE, RTM_DELROUTE}:
            return any(self._is_unplanned(route, frame.type == RTM_NEWROUTE) for route in routes_in(frame.encoded))
        family, ifindex = _FAMILY_AND_IFINDEX.unpack_from(frame.encoded, HEADER.size)
        if frame.type in {RTM_NEWNEIGH, RTM_DELNEIGH}:
            return ifindex == self._tunnel != 0 and self._is_other_entry(frame, family)
        if frame.type == RTM_NEWLINK:
            return self._is_other_link(link_in(frame))
        if frame.type == RTM_DELLINK:
            return ifindex in self._watched
        return self._is_other_address(address_in(frame).interface, ifindex, frame.type == RTM_NEWADDR)

    def _is_other_address(self, interface: Interface, ifindex: int, is_new: bool) -> bool:  # noqa: FBT001 -- as below
        """Tell of one of the tunnel's link, or of one of this node's own on any link."""
        if ifindex != self._tunnel:
            return interface.ip in self._plan.site.node.addresses.values()
        tunnel = self._plan.tunnel
        is_planned = tunnel is not None and interface in tunnel.addresses
        return is_planned != is_new and not (is_new and interface.is_link_local)

    def _is_unplanned(self, route: KernelRoute, is_new: bool) -> bool:  # noqa: FBT001 -- a kind of message
        if route.protocol != PROTOCOL:
            is_main = route.table == RT_TABLE_MAIN
            return is_main and (self._is_in_the_way(route.dst) or self._leads_to_node(route.dst))
        hop = self._hops.get(route.dst)
        is_planned = hop is not None and is_as_planned(route, hop, hop.ifindex or self._tunnel)
        return is_planned != is_new

    def _is_in_the_way(self, dst: Network) -> bool:
        """Tell whether another program's route takes packets from a planned one."""
        ranges = self._ranges[dst.version]
        at = bisect_right(ranges, dst) - 1
        return at >= 0 and is_within(dst, ranges[at])

    def _leads_to_node(self, dst: Network) -> bool:
        """Tell whether another program's route may change the way to a node."""
        nodes = self._nodes[dst.version]
        at = bisect_left(nodes, int(dst.network_address))
        return at < len(nodes) and nodes[at] <= int(dst.broadcast_address)

    def _is_other_entry(self, frame: Frame, family: int) -> bool:
        entry, is_new = neighbour_in(frame.encoded), frame.type == RTM_NEWNEIGH
        if family == AF_BRIDGE:
            return entry.dst is not None and (self._ends.get(entry.lladdr) == entry.dst) != is_new
        wanted = self._neighbours.get(entry.dst) if entry.dst is not None else None
        is_permanent = bool(entry.state & NUD_PERMANENT)
        if not is_new:
            return wanted is not None
        return wanted != entry.lladdr if is_permanent else wanted is not None

    def _is_other_link(self, link: Link) -> bool:
        if link.name == TUNNEL:
            return link.kind != "vxlan" or bool(sign_of_link(link, self._plan))
        known = self._uplinks.get(link.ifindex)
        if known is None:
            return link.ifindex in self._watched
        return (link.mtu, link.up, link.oper_state) != (known.mtu, known.up, known.oper_state)


def _addresses(peers: Iterable[Peer]) -> list[Address]:
    return [address for peer in peers for address in peer.addresses.values()]
