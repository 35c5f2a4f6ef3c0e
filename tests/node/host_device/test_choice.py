"""The keys that name the device, and wrong ones."""

from typing import Any

import pytest

from tests.attachments import Network
from tests.masters import names
from tests.node.host_device.devices import DEVICE, device_link
from tests.nodes import Neighbours


def test_two_pods_that_want_one_device(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.node.pod_namespace("two")

    for keys in (
        {},
        {"device": "", "hwaddr": device_link(network, network.namespace("one"))["address"]},
        {"name": "other"},
    ):
        error = network.fail("ADD", "two", **keys)

        assert error["code"] == 11
        assert 'in use: it is the interface "eth0" of the container id-one, network "net"' in error["msg"]
    assert network.ping("one", wire.ipv4[1])


@pytest.mark.parametrize("key", ["device", "alternative name", "hwaddr", "hwaddr, as Windows writes it"])
def test_by_name_and_by_mac(network: Network, key: str) -> None:
    address = device_link(network, None, DEVICE)["address"]
    keys: dict[str, dict[str, Any]] = {
        "device": {"device": DEVICE},
        "alternative name": {"device": "enp0s31f6"},
        "hwaddr": {"device": None, "hwaddr": address},
        "hwaddr, as Windows writes it": {"device": "", "hwaddr": address.upper().replace(":", "-")},
    }
    named = keys[key]

    network.add("one", **named)
    assert device_link(network, network.namespace("one"))["address"] == address
    network.succeed("DEL", "one", **named)
    assert DEVICE in names(network.node)


def test_by_kernel_path(unplugged: Network) -> None:
    """All virtual interfaces are those of one device in sysfs, and the first one by name is taken."""
    unplugged.node.run(["ip", "link", "add", "a-first", "type", "veth", "peer", "name", "z-last"])
    path: dict[str, Any] = {"device": None, "kernelpath": "/sys/devices/virtual", "ipam": {}}

    unplugged.add("one", **path)

    assert names(unplugged.node) >= {"z-last", DEVICE}
    unplugged.succeed("DEL", "one", **path)
    assert "a-first" in names(unplugged.node)


@pytest.mark.mostly_slow(4, "each key; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "code", "told"),
    [
        ({"device": "none0"}, 7, 'device: there is no interface for "none0" on the host'),
        ({"device": "", "hwaddr": "02:00:00:00:00:99"}, 7, "hwaddr: there is no interface for"),
        ({"device": None, "kernelpath": "/sys/devices/none"}, 7, "kernelpath: there is no interface for"),
        ({"device": None, "pciBusID": "ffff:ff:1f.7"}, 7, 'pciBusID: there is no PCI device "ffff:ff:1f.7"'),
        (
            {"device": None, "runtimeConfig": {"deviceID": "none.sf.1"}},
            7,
            'runtimeConfig.deviceID: there is no PCI or auxiliary device "none.sf.1"',
        ),
        ({"device": None, "runtimeConfig": {"deviceID": "../x"}}, 7, "runtimeConfig.deviceID: expected the address"),
        ({"device": None}, 7, "required: device, hwaddr, kernelpath, pciBusID, runtimeConfig.deviceID"),
        (
            {"hwaddr": "02:00:00:00:00:99"},
            7,
            'one key only may name the device, got device "uplink0", hwaddr "02:00:00:00:00:99"',
        ),
        ({"runtimeConfig": {"deviceID": "0000:00:1f.2"}}, 7, 'runtimeConfig.deviceID "0000:00:1f.2"'),
        ({"device": None, "hwaddr": "02:00"}, 7, "hwaddr: expected a MAC address"),
        ({"device": None, "kernelpath": "/sys/class/net/x"}, 7, "kernelpath: expected a path below /sys/devices/"),
        ({"device": None, "kernelpath": "/sys/devices/../class"}, 7, "kernelpath: expected a path below"),
        ({"device": None, "pciBusID": "../../x"}, 7, "pciBusID: expected the address of a PCI device"),
        ({"device": 7}, 7, "device: expected a string, got 7"),
        ({"mtu": 67}, 7, "mtu: expected"),
    ],
)
def test_add_refuses_wrong_keys_and_del_ignores_them(
    unplugged: Network, keys: dict[str, Any], code: int, told: str
) -> None:
    unplugged.node.pod_namespace("one")
    before = unplugged.node.state()

    error = unplugged.fail("ADD", "one", **keys)

    assert (error["code"], told in error["msg"]) == (code, True), error
    unplugged.node.assert_same_state(before, ignore=["files/*networks*"])
    unplugged.add("two")
    assert unplugged.run("DEL", "two", **keys).code == 0
    assert DEVICE in names(unplugged.node)


def test_status(unplugged: Network) -> None:
    def status(**keys: Any) -> tuple[int, object]:
        ran = unplugged.node.plugin(unplugged.bin_dir, "host-device", "STATUS", unplugged.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert status() == (0, None)
    assert status(device="none0") == (1, 50)
    assert status(device=None) == (1, 7)
    assert status(hwaddr="02:00:00:00:00:99") == (1, 7)
    assert status(device=None, capabilities={"deviceID": True}) == (0, None)
    assert status(ipam={"type": "no-such-plugin"})[0] == 1
    unplugged.add("one")
    assert status() == (0, None), "a pod has it"
