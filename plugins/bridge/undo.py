"""Taking back what a failing ADD did to a bridge that it shares with other pods."""

from collections.abc import Callable, Collection

from firewall.owner import Owner
from lean.typing import ParamSpec
from netlink.rtnl import Link, Rtnl
from skel import Interruption, Undo

__all__ = ["BridgeUndo"]

P = ParamSpec("P")


class BridgeUndo(Undo):
    """An `Undo` that knows which changes of a bridge other pods may count on: those stay.

    A port that came after the change may be such a pod's. So may one that was there, if it is a pod's of ours: nobody
    can tell whether its ADD is over. An uplink, or a pod of the reference, that was there did without the change.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        host: Rtnl,
        bridge: str,
        own_port: str,
        interruption: Interruption | None = None,
    ) -> None:
        super().__init__(log, interruption)
        self.own_ports = {own_port}
        """The names of the ports that this ADD makes."""
        self.made_bridge = False
        """Whether this ADD has made the bridge, which had no ports then."""
        self._host = host
        self._bridge = bridge

    def unless_counted_on(
        self, inverse: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs"
    ) -> Callable[[], None]:
        """Return the inverse, for `add`, of a change that is about to be made. Raises NetlinkError."""
        ports = [] if self.made_bridge else self._ports()
        others = {port.name for port in ports if Owner.from_label(port.alias) is None}

        def take_back() -> None:
            if not self._may_be_counted_on(others):
                inverse(*args, **kwargs)

        return take_back

    def _may_be_counted_on(self, others: Collection[str]) -> bool:
        return any(port.name not in others and port.name not in self.own_ports for port in self._ports())

    def _ports(self) -> list[Link]:
        bridge = self._host.link(self._bridge)
        return self._host.links_of(bridge.ifindex) if bridge else []
