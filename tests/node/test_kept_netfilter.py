"""The socket for nftables that calls find open, and leave open for the next."""

from ipaddress import ip_interface
from types import SimpleNamespace
from typing import Any

import pytest

from firewall import masquerade
from firewall.owner import Owner
from netlink.wire import NetlinkError
from plugins.attach.attachment import firewall_of, netfilter_of
from skel.plugin import Kept
from tests.node.firewall import inside
from tests.nodes import Node

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
ADDRESS = ip_interface("10.88.0.5/16")


def call(kept: Kept) -> Any:
    """What a call that finds `kept` looks like to `netfilter_of`."""
    return SimpleNamespace(kept=kept, environ={})


def test_calls_one_after_another_use_one_socket(node: Node) -> None:
    kept = Kept()
    with inside(node.path):
        masquerade.apply(firewall_of(call(kept)), OWNER, [ADDRESS])
        descriptors = kept.descriptors()
        masquerade.remove(firewall_of(call(kept)), OWNER, [ADDRESS])

    assert len(descriptors) == 1
    assert kept.descriptors() == descriptors
    kept.close()


def test_a_socket_that_has_lost_replies_is_replaced(node: Node) -> None:
    kept = Kept()
    with inside(node.path):
        lost = netfilter_of(call(kept))
        lost._socket.settimeout(0)  # as the time limit does: there is nothing to read
        with pytest.raises(NetlinkError):
            list(lost._replies())

        masquerade.apply(firewall_of(call(kept)), OWNER, [ADDRESS])

    assert lost.fileno() == -1
    assert netfilter_of(call(kept)) is not lost
    kept.close()
