"""The life of leases of a few seconds, against kea in a neighbouring node: renewed, rebound, lost and found."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.dhcp_servers import Daemon, kea, running_daemon
from tests.nodes import Node, until

pytestmark = pytest.mark.needs("kea")

SECONDS = 6


def network_of(node: Node, bin_dir: Path, daemon: Daemon, **ipam: Any) -> Network:
    keys = {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "uplink0"}
    return Network(node, bin_dir, {**keys, "ipam": daemon.ipam(**ipam)})


def routes(network: Network, pod: str) -> list[tuple[str, str]]:
    found = network.node.ip("route", netns=network.namespace(pod))
    return sorted((route["dst"], route.get("gateway", "")) for route in found)


def test_a_lease_is_renewed_rebound_lost_and_found(node: Node, neighbour: Node, direct_bin_dir: Path) -> None:
    with running_daemon(node, direct_bin_dir) as daemon:
        network = network_of(node, direct_bin_dir, daemon)
        with kea(neighbour, 4, SECONDS):
            result = network.add("one")
            [address] = network.addresses("one")
            before = routes(network, "one")
            until(lambda: "ack: renewing -> bound" in daemon.log())

            # A killed daemon loses no lease: the next one renews it.
            daemon.kill()
            renewed = daemon.log().count("ack: re")
            daemon.restart()
            until(lambda: daemon.log().count("ack: re") > renewed)
            network.succeed("CHECK", "one", prevResult=result)
            assert network.addresses("one") == [address]

        # Without a server it asks any server, then gives the address up.
        until(lambda: "T2: renewing -> rebinding" in daemon.log())
        until(lambda: "expiry: rebinding -> selecting" in daemon.log())
        until(lambda: network.addresses("one") == [])
        assert "has lost its lease" in network.fail("CHECK", "one", prevResult=result)["msg"]

        with kea(neighbour, 4, SECONDS) as server:
            until(lambda: network.addresses("one") == [address])
            assert routes(network, "one") == before
            network.succeed("CHECK", "one", prevResult=result)

            network.succeed("DEL", "one", prevResult=result)
            until(lambda: server.count("DHCP4_RELEASE "))
    assert daemon.files() == []
    assert daemon.process.returncode == 0


@pytest.mark.parametrize("ipv4", [True, False], ids=["dual stack", "IPv6 alone"])
def test_ipv6(node: Node, neighbour: Node, direct_bin_dir: Path, ipv4: bool) -> None:  # noqa: FBT001 -- a parameter of pytest
    with running_daemon(node, direct_bin_dir) as daemon, kea(neighbour, 6, SECONDS) as server:
        network = network_of(node, direct_bin_dir, daemon, ipv6=True, ipv4=ipv4)
        if ipv4:
            with kea(neighbour, 4, 3600):
                result = network.add("one")
        else:
            result = network.add("one")

        versions = [ip["address"].rpartition("/")[2] for ip in result["ips"]]
        assert versions == (["24", "128"] if ipv4 else ["128"])
        assert network.addresses("one") == [ip["address"].rpartition("/")[0] for ip in result["ips"]]
        network.succeed("CHECK", "one", prevResult=result)
        until(lambda: "ack: renewing -> bound" in daemon.log())

        network.succeed("DEL", "one", prevResult=result)
        until(lambda: server.count("DHCP6_RELEASE_NA "))
    assert daemon.files() == []
