"""The dhcp plugin and its daemon, against real servers in a neighbouring node."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.dhcp_servers import Daemon, DhcpServer, dnsmasq, running_daemon
from tests.nodes import Node, veth_between


@pytest.fixture
def neighbour(node: Node, make_node: Callable[[], Node]) -> Node:
    """The machine of the server: 192.0.2.2."""
    made = make_node()
    veth_between(node, made)
    return made


@pytest.fixture
def server(neighbour: Node) -> Iterator[DhcpServer]:
    with dnsmasq(neighbour) as running:
        yield running


@pytest.fixture
def daemon(node: Node, direct_bin_dir: Path) -> Iterator[Daemon]:
    with running_daemon(node, direct_bin_dir) as running:
        yield running


def config(daemon: Daemon, **ipam: Any) -> dict[str, Any]:
    return {
        "cniVersion": "1.1.0",
        "name": "net",
        "type": "macvlan",
        "master": "uplink0",
        "ipam": daemon.ipam(**ipam),
    }


@pytest.fixture
def network(node: Node, bin_dir: Path, server: DhcpServer, daemon: Daemon) -> Network:
    assert server
    return Network(node, bin_dir, config(daemon))


def test_a_pod_has_a_lease_until_it_is_deleted(network: Network, server: DhcpServer, daemon: Daemon) -> None:
    result = network.add("one")

    [address] = network.addresses("one")
    [ip] = result["ips"]
    assert ip == {"address": f"{address}/24", "gateway": "192.0.2.2", "interface": 0}
    assert result["routes"] == [{"dst": "0.0.0.0/0", "gw": "192.0.2.2"}]
    assert network.ping("one", "192.0.2.2")
    assert daemon.files() == ["net/id-one:eth0"]
    network.succeed("CHECK", "one", prevResult=result)

    network.succeed("DEL", "one", prevResult=result)
    assert server.count(f"DHCPRELEASE(uplink0) {address}") == 1
    assert daemon.files() == []
    network.succeed("DEL", "one", prevResult=result)
