"""CHECK tells damage to the device in the pod."""

import pytest

from tests.attachments import Network
from tests.node.host_device.devices import DEVICE


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link set eth0 address 02:00:00:00:00:01", "MAC of"),
        ("ip address flush dev eth0 scope global", "is missing"),
        ("ip link set eth0 alias ", 'the alias of "eth0" in the container is missing'),
        ("ip link set eth0 netns 1", '"eth0" is missing'),
    ],
)
def test_check_tells_damage(network: Network, damage: str, told: str) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    command = damage.replace("netns 1", f"netns {network.node.name}").split(" ")
    network.node.run(command, netns=network.namespace("one"))

    error = network.fail("CHECK", "one", prevResult=result)

    assert (error["code"], told in error["msg"]) == (999, True), error


def test_check_tells_another_device(unplugged: Network) -> None:
    result = unplugged.add("one", ipam={})
    netns, address = unplugged.namespace("one"), result["interfaces"][0]["mac"]
    unplugged.node.run(["ip", "link", "set", "eth0", "down", "name", "away"], netns=netns)
    unplugged.node.run(["ip", "link", "add", "eth0", "address", address, "up", "type", "bridge"], netns=netns)

    error = unplugged.fail("CHECK", "one", ipam={}, prevResult=result)

    assert error["msg"] == f'"eth0" in the container is not the device "{DEVICE}" of the host'
