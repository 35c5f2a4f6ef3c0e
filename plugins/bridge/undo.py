"""Undoing the changes of a failing ADD to a bridge that it shares with other pods."""

from firewall.owner import Owner
from lean.typing import Callable, Collection, ParamSpec
from netlink.link import Link
from netlink.rtnl import Rtnl
from skel import Interruption, Undo

P = ParamSpec("P")


class BridgeUndo(Undo):
    """An `Undo` that keeps a change of the bridge if another pod may rely on it by now.

    A pod may rely on it if its port came after the change. So may one with an earlier port and an alias of ours:
    nothing tells whether its ADD has ended. Other earlier ports (an uplink, a pod of the reference) worked without the
    change.
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

    def add_shared(self, inverse: "Callable[P, object]", *args: "P.args", **kwargs: "P.kwargs") -> Callable[[], object]:
        """Register the inverse of the next change, as `add` does; it does nothing if another pod relies on the change.

        Raises NetlinkError.
        """
        ports = [] if self.made_bridge else self._ports()
        others = {port.name for port in ports if Owner.from_label(port.alias) is None}

        def take_back() -> None:
            if not self._is_relied_on(others):
                inverse(*args, **kwargs)

        return self.add(take_back)

    def _is_relied_on(self, others: Collection[str]) -> bool:
        return any(port.name not in others and port.name not in self.own_ports for port in self._ports())

    def _ports(self) -> list[Link]:
        bridge = self._host.link(self._bridge)
        return self._host.links_of(bridge.ifindex) if bridge else []
