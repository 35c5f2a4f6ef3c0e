"""The routing of a pod, for chained plugins that move an interface's routes to another table (sbr, vrf)."""

import fcntl
from _socket import AF_INET, AF_INET6

from fast_stdlib.typing import Iterable, Iterator
from netlink.namespace import Namespace
from netlink.route_copies import RouteCopy, copy_routes
from netlink.routes import RT_TABLE_MAIN
from netlink.rtnl import Rtnl
from netlink.rules import Rule
from skel import Interruption

KERNELS_OWN = range(253, 256)
"""Tables default, main and local."""


def lock(netns: Namespace, interruption: Interruption) -> None:
    """Wait until no other plugin chooses routing tables in this pod, and lock it until `netns` is closed.

    The reference's sbr takes the same lock. Raises OSError.
    """
    with interruption.waiting():
        fcntl.flock(netns.fd, fcntl.LOCK_EX)


def free_tables(pod: Rtnl, rules: Iterable[Rule], first: int) -> Iterator[int]:
    """Yield the numbers of routing tables from `first` on that no rule, route or VRF of the pod uses.

    Raises NetlinkError.
    """
    used = {*KERNELS_OWN, *(rule.table for rule in rules), *(link.details.vrf_table for link in pod.links())}
    for family in (AF_INET, AF_INET6):
        used |= {route.table for route in pod.routes(family, table=None)}
    return (table for table in range(first, 1 << 32) if table not in used)


def is_link_local(copy: RouteCopy) -> bool:
    """Tell whether a route is that of IPv6 link-local addresses, which neighbour discovery needs in the main table."""
    return copy.route.dst.version != 4 and copy.route.dst.is_link_local  # noqa: PLR2004 - IPv4 discovers by ARP


def put_back(pod: Rtnl, ifindex: int, before: Iterable[RouteCopy]) -> None:
    """Give a link the routes in the main table that it had `before`, and no others. Raises NetlinkError.

    The kernel may have made that of link-local addresses meanwhile: it stays.
    """
    wanted = list(before)
    known = {(copy.route, copy.source) for copy in wanted}
    present = [copy for copy in copy_routes(pod, ifindex, RT_TABLE_MAIN) if not is_link_local(copy)]
    pod.send(*(copy.delete() for copy in reversed(present) if (copy.route, copy.source) not in known))
    pod.send(*(copy.add() for copy in wanted))
