from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_interface
from socket import AF_INET, AF_INET6
from typing import Any, NamedTuple

import pytest

from netlink.link import Link
from netlink.namespace import entered, open_namespace
from netlink.rtnl import DuplicateAddressError, Rtnl
from netlink.wire import NetlinkError
from tests.nodes import Node

pytestmark = pytest.mark.sudo


class Pods(NamedTuple):
    """Two pods on a bridge of the node, each with an eth0 that is down."""

    host: Rtnl
    paths: list[str]
    handles: list[Rtnl]
    ports: list[Link]

    @property
    def eth0(self) -> int:
        """The index of the first pod's."""
        return self.ports[0].peer_ifindex


@pytest.fixture
def pods(node: Node) -> Iterator[Pods]:
    paths = [node.pod_namespace("a"), node.pod_namespace("b")]
    # The thread is elsewhere, so that a handle that opened in the wrong place is seen, and does no harm.
    with (
        open_namespace(node.pod_namespace("elsewhere")) as elsewhere,
        entered(elsewhere),
        open_namespace(node.path) as namespace,
        Rtnl(namespace) as host,
        open_namespace(paths[0]) as a,
        open_namespace(paths[1]) as b,
        Rtnl(a) as in_a,
        Rtnl(b) as in_b,
    ):
        host.create_bridge("br0")
        bridge = host.link("br0")
        assert bridge is not None
        host.set_up(bridge.ifindex)
        ports = [
            host.create_veth(f"veth{number}", peer_name="eth0", peer_namespace=namespace, master=bridge.ifindex)
            for number, namespace in enumerate((a, b))
        ]
        yield Pods(host, paths, [in_a, in_b], ports)


def shown(node: Node, path: str) -> dict[str, dict[str, Any]]:
    (link,) = node.ip("address", "show", "dev", "eth0", netns=path)
    return {f"{entry['local']}/{entry['prefixlen']}": entry for entry in link["addr_info"]}


def test_add_address(node: Node, pods: Pods) -> None:
    pod = pods.handles[0]

    assert pod.add_address(pods.eth0, ip_interface("10.1.0.2/24")) is True
    assert pod.add_address(pods.eth0, ip_interface("10.2.0.2/31")) is True
    assert pod.add_address(pods.eth0, ip_interface("2001:db8::2/64"), nodad=True) is True

    addresses = shown(node, pods.paths[0])
    assert {"10.1.0.2/24", "10.2.0.2/31", "2001:db8::2/64"} == addresses.keys()
    assert addresses["10.1.0.2/24"]["broadcast"] == "10.1.0.255"
    assert "broadcast" not in addresses["10.2.0.2/31"]
    assert addresses["2001:db8::2/64"]["nodad"] is True


def test_addresses_are_listed_by_link_and_family(pods: Pods) -> None:
    pod = pods.handles[0]
    pod.add_address(pods.eth0, ip_interface("10.1.0.2/24"))
    pod.add_address(pods.eth0, ip_interface("2001:db8::2/64"), nodad=True)

    both = ["10.1.0.2/24", "2001:db8::2/64"]
    assert both == [str(address.interface) for address in pod.addresses(pods.eth0)]
    assert both[:1] == [str(address.interface) for address in pod.addresses(pods.eth0, AF_INET)]
    assert both[1:] == [str(address.interface) for address in pod.addresses(pods.eth0, AF_INET6)]
    with pytest.raises(NetlinkError, match="list the addresses of link 4242: No such device"):
        pod.addresses(4242)


def test_addresses_with_a_peer_are_given_as_the_own_end(node: Node, pods: Pods) -> None:
    node.run(["ip", "address", "add", "10.1.0.2", "peer", "10.1.0.3/32", "dev", "eth0"], netns=pods.paths[0])

    assert [str(address.interface) for address in pods.handles[0].addresses(pods.eth0)] == ["10.1.0.2/32"]


def test_an_address_that_is_there_is_an_error_unless_allowed(pods: Pods) -> None:
    pod = pods.handles[0]
    for address in (ip_interface("10.1.0.2/24"), ip_interface("2001:db8::2/64")):
        pod.add_address(pods.eth0, address)

        with pytest.raises(NetlinkError, match=f"add address {address} to link {pods.eth0}: File exists"):
            pod.add_address(pods.eth0, address)
        assert pod.add_address(pods.eth0, address, exist_ok=True) is False


def test_delete_address_tells_whether_it_was_there(node: Node, pods: Pods) -> None:
    pod = pods.handles[0]
    for address in (ip_interface("10.1.0.2/24"), ip_interface("2001:db8::2/64")):
        pod.add_address(pods.eth0, address)

        assert pod.delete_address(pods.eth0, address) is True
        assert pod.delete_address(pods.eth0, address) is False
    assert shown(node, pods.paths[0]) == {}
    assert pod.delete_address(4242, ip_interface("10.1.0.2/24")) is False


def test_waiting_for_addresses_ends_with_duplicate_address_detection(node: Node, pods: Pods) -> None:
    pod = pods.handles[0]
    pod.add_address(pods.eth0, ip_interface("2001:db8::2/64"))
    pod.set_up(pods.eth0)
    tentative = {str(address.interface) for address in pod.addresses(pods.eth0, AF_INET6) if address.tentative}
    assert "2001:db8::2/64" in tentative
    assert pod.wait_addresses_settled(pods.eth0, 0) is False

    assert pod.wait_addresses_settled(pods.eth0, 10) is True

    assert not any(entry.get("tentative") for entry in shown(node, pods.paths[0]).values())


def test_waiting_for_a_duplicate_address_raises(pods: Pods) -> None:
    first, second = pods.handles
    first.add_address(pods.eth0, ip_interface("2001:db8::2/64"), nodad=True)
    first.set_up(pods.eth0)
    assert first.wait_oper_up(pods.eth0, 5)
    index = pods.ports[1].peer_ifindex
    second.set_up(index)
    assert second.wait_oper_up(index, 5)
    second.add_address(index, ip_interface("2001:db8::2/64"))

    with pytest.raises(DuplicateAddressError, match="2001:db8::2/64"):
        second.wait_addresses_settled(index, 10)


def test_waiting_for_a_link_ends_when_it_is_operational(pods: Pods) -> None:
    pod = pods.handles[0]
    assert pods.host.wait_oper_up(pods.ports[0].ifindex, 0) is None
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(pods.host.wait_oper_up, pods.ports[0].ifindex, 10)
        pod.set_up(pods.eth0)

        assert waiting.result() == pods.host.link(pods.ports[0].ifindex)
    with pytest.raises(NetlinkError, match="link 4242"):
        pod.wait_oper_up(4242, 0)
