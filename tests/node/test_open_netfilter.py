"""The socket for nftables that calls find open, and leave open for the next."""

from ipaddress import ip_interface
from types import SimpleNamespace
from typing import Any

import pytest

from firewall import masquerade
from firewall.owner import Owner
from netlink.wire import NetlinkError
from plugins.attach.attachment import firewall_of, netfilter_of
from skel.plugin import OpenSockets
from tests.node.firewall import inside
from tests.nodes import Node

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
ADDRESS = ip_interface("10.88.0.5/16")


def call(open_sockets: OpenSockets) -> Any:
    """What a call that finds `open_sockets` looks like to `netfilter_of`."""
    return SimpleNamespace(open_sockets=open_sockets, environ={})


def test_calls_one_after_another_use_one_socket(node: Node) -> None:
    open_sockets = OpenSockets()
    with inside(node.path):
        masquerade.apply(firewall_of(call(open_sockets)), OWNER, [ADDRESS])
        descriptors = open_sockets.descriptors()
        masquerade.remove(firewall_of(call(open_sockets)), OWNER, [ADDRESS])

    assert len(descriptors) == 1
    assert open_sockets.descriptors() == descriptors
    open_sockets.close()


def test_a_socket_that_has_lost_replies_is_replaced(node: Node) -> None:
    open_sockets = OpenSockets()
    with inside(node.path):
        lost = netfilter_of(call(open_sockets))
        lost._socket.settimeout(0)  # as the time limit does: there is nothing to read
        with pytest.raises(NetlinkError):
            list(lost._replies())

        masquerade.apply(firewall_of(call(open_sockets)), OWNER, [ADDRESS])

    assert lost.fileno() == -1
    assert netfilter_of(call(open_sockets)) is not lost
    open_sockets.close()
