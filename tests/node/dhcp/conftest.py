"""Fixtures of the tests of dhcp: a daemon on the node, and a server in a neighbouring one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attachments import Network
from tests.dhcp_servers import Daemon, DhcpServer, dnsmasq, macvlan_config, running_daemon
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


@pytest.fixture
def direct(node: Node, direct_bin_dir: Path, server: DhcpServer, daemon: Daemon) -> Network:
    """The network, for tests of what the daemon does."""
    return Network(node, direct_bin_dir, macvlan_config(daemon))
