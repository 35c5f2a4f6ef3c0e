"""Links that are made on a link of another network namespace, and addresses without a route to their network."""

from collections.abc import Callable
from ipaddress import ip_interface

import pytest

from netlink.addresses import add_address
from netlink.kinds import macvlan
from netlink.namespace import entered, open_namespace
from netlink.namespace_ids import namespace_id
from netlink.rtnl import Rtnl
from tests.nodes import Node


@pytest.mark.parametrize("is_known", [False, True])
def test_a_macvlan_in_the_pod_on_a_link_of_the_host(make_node: Callable[[], Node], *, is_known: bool) -> None:
    node = make_node()
    pod = node.pod_namespace("pod")
    # The host has a link of the name, and the pod one of the index.
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    [below] = node.ip("link", "show", "eth0")
    if is_known:
        node.run(["ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", f"{node.name}-pod"])
        node.ip("link", netns=pod)  # gives the host a number

    with open_namespace(node.path) as host, open_namespace(pod) as namespace, Rtnl(namespace) as rtnl:
        with entered(namespace):
            number = namespace_id(host)
        assert (number is not None) is is_known
        data = macvlan(mode="private")

        assert rtnl.create_link("macvlan", "eth0", data=data, link=below["ifindex"], link_namespace=host) is True
        assert rtnl.create_link("macvlan", "eth0", data=data, link=below["ifindex"], link_namespace=host) is False
        found = rtnl.link("eth0")
        with entered(namespace):
            assert namespace_id(host) == number if is_known else namespace_id(host) is not None

    assert found is not None
    [made] = node.ip("-d", "link", "show", "eth0", netns=pod)
    assert (
        (found.kind, found.details.macvlan_mode)
        == ("macvlan", made["linkinfo"]["info_data"]["mode"])
        == ("macvlan", "private")
    )
    assert made["link_index"] == below["ifindex"]
    assert {link["ifname"] for link in node.ip("link")} == {"lo", "eth0"} | ({"wire"} if is_known else set())


def test_set_alias(node: Node) -> None:
    with open_namespace(node.path) as host, Rtnl(host) as rtnl:
        rtnl.set_alias(1, "net/pod/lo")

    assert node.ip("link", "show", "lo")[0]["ifalias"] == "net/pod/lo"


@pytest.mark.parametrize("address", ["192.0.2.1/24", "2001:db8::1/64"])
def test_noprefixroute(node: Node, address: str) -> None:
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    node.run(["ip", "link", "set", "br0", "up"])
    [made] = node.ip("link", "show", "br0")
    interface = ip_interface(address)

    with open_namespace(node.path) as host, Rtnl(host) as rtnl:
        rtnl.send(add_address(made["ifindex"], interface, nodad=True, noprefixroute=True))

    [shown] = node.ip("address", "show", "dev", "br0")
    assert interface.ip.compressed in {each["local"] for each in shown["addr_info"]}
    routes = node.ip(f"-{interface.version}", "route", "show", "dev", "br0")
    assert str(interface.network) not in {route["dst"] for route in routes}
