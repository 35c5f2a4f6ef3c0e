"""The host-device plugin: an interface of the host moves into the pod and comes back as it was."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from netlink.socket import Socket
from plugins.host_device import loan
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.node.faults import FaultAt, answer_lost_at, dispatched, failing_at, fails_at_every_step
from tests.nodes import HANG, Neighbours, Node, until, until_usable, veth_between

IPAM = {
    "type": "host-local",
    "ranges": [
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.10"}],
        [{"subnet": "2001:db8::/64", "rangeStart": "2001:db8::10"}],
    ],
}
DEVICE = "uplink0"


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "host-device", "device": DEVICE, "ipam": IPAM} | keys


@pytest.fixture
def neighbour(make_node: Callable[[], Node]) -> Node:
    """A machine on the same wire."""
    return make_node()


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    return veth_between(node, neighbour)


@pytest.fixture
def network(node: Node, direct_bin_dir: Path, wire: Neighbours) -> Network:
    """The device has addresses, a route and an alternative name; it is up."""
    assert wire.ifname == DEVICE
    node.run(["ip", "link", "set", DEVICE, "mtu", "1450"])
    node.run(["ip", "link", "property", "add", "dev", DEVICE, "altname", "enp0s31f6"])
    node.run(["ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.2", "dev", DEVICE, "metric", "70"])
    node.run(["ip", "-6", "route", "add", "2001:db8:7::/48", "via", "2001:db8::2", "dev", DEVICE])
    return Network(node, direct_bin_dir, config())


@pytest.fixture
def either(network: Network, bin_dir: Path) -> Network:
    """The same with both kinds of executables."""
    return Network(network.node, bin_dir, network.config)


@pytest.fixture
def unplugged(node: Node, direct_bin_dir: Path) -> Network:
    """The device has neither addresses nor a neighbour."""
    node.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "uplink1"])
    return Network(node, direct_bin_dir, config(ipam={}))


def names(node: Node, netns: str | None = None) -> set[str]:
    return {each["ifname"] for each in node.ip("link", netns=netns)}


def link(network: Network, netns: str | None, ifname: str = "eth0") -> dict[str, Any]:
    found: dict[str, Any]
    [found] = network.node.ip("-d", "link", "show", "dev", ifname, netns=netns)
    return found


def records(node: Node) -> list[str]:
    return sorted(path.name for path in node.var_lib_cni.glob("host-device/*/*"))


def add(network: Network, pod: str = "one", **keys: Any) -> dict[str, Any]:
    return network.add(pod, **keys)


def assert_back(network: Network, before: Any, netns: str | None = None) -> None:
    """Raise AssertionError unless the device is as it was: name, addresses, routes, state."""
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*"], within=HANG)
    assert records(network.node) == []
    if netns:
        assert names(network.node, netns) == {"lo"}


def test_the_pod_has_the_device_and_reaches_the_neighbour(either: Network, wire: Neighbours) -> None:
    [before] = either.node.ip("link", "show", DEVICE)

    result = add(either)

    netns = either.namespace("one")
    moved = link(either, netns)
    assert DEVICE not in names(either.node)
    assert (moved["ifindex"], moved["address"]) == (before["ifindex"], before["address"])
    assert result["interfaces"] == [{"name": "eth0", "mac": before["address"], "mtu": 1450, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    for address in (wire.ipv4[1], wire.ipv6[1]):
        assert either.ping("one", address), address
    assert moved["ifalias"] == DEVICE, "the reference plugin's DEL reads it"
    either.succeed("CHECK", "one", prevResult=result)


@pytest.mark.parametrize("way", ["with the result", "without", "again", "without the namespace's path"])
def test_it_comes_back_as_it_was(either: Network, way: str) -> None:
    netns = either.node.pod_namespace("one")
    before = either.node.state()
    result = either.succeed("ADD", "one")

    if way == "without the namespace's path":
        either.succeed("DEL", "one", netns="")
    for _ in range(2 if way == "again" else 1):
        either.succeed("DEL", "one", **({"prevResult": result} if way == "with the result" else {}))

    assert_back(either, before, netns)
    assert list((either.node.var_lib_cni / "networks/net").glob("192.*")) == []


def test_one_that_was_down_comes_back_down(network: Network) -> None:
    node = network.node
    node.run(["ip", "link", "set", DEVICE, "alias", "to the rack", "down"])
    netns = node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one", ipam={})

    network.succeed("DEL", "one", ipam={})

    node.assert_same_state(before)
    [link_now] = node.ip("link", "show", DEVICE)
    assert ("UP" in link_now["flags"], link_now["ifalias"]) == (False, "to the rack")
    assert names(node, netns) == {"lo"}


def test_a_port_of_a_bridge_comes_back_to_it(network: Network) -> None:
    node = network.node
    node.run(["ip", "link", "add", "br7", "address", "02:00:00:00:00:01", "up", "type", "bridge"])
    node.run(["ip", "link", "set", DEVICE, "master", "br7"])
    network.add("one", ipam={})
    assert "master" not in link(network, network.namespace("one"))

    network.succeed("DEL", "one", ipam={})

    assert link(network, None, DEVICE)["master"] == "br7"


@pytest.mark.parametrize(
    "doing",
    [
        "ip link set eth0 down name other",
        "ip link set eth0 alias lost",
        "ip link set eth0 address 02:00:00:00:00:01 mtu 1300",
    ],
)
def test_whatever_the_pod_did_to_it(network: Network, doing: str) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    network.succeed("ADD", "one")
    network.node.run(doing.split(), netns=netns)

    network.succeed("DEL", "one")

    assert_back(network, before, netns)


def test_the_names_are_taken_on_the_other_side(network: Network) -> None:
    """The host has an `eth0`, the pod a link with the device's name: neither one is touched."""
    node = network.node
    netns = node.pod_namespace("one")
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.run(["ip", "link", "add", DEVICE, "type", "bridge"], netns=netns)
    before = node.state()

    network.succeed("ADD", "one")
    assert names(node, netns) == {"lo", "eth0", DEVICE}
    network.succeed("DEL", "one")

    assert_back(network, before)
    assert names(node, netns) == {"lo", DEVICE}


def test_its_name_is_taken_when_it_comes_back(network: Network) -> None:
    node = network.node
    netns = node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    node.run(["ip", "link", "add", DEVICE, "type", "bridge"])

    error = network.fail("DEL", "one")

    assert error["msg"] == f'the device "{DEVICE}" cannot have its name back: another interface of the host has it'
    node.run(["ip", "link", "delete", DEVICE])
    network.succeed("DEL", "one")
    assert_back(network, before, netns)


def test_the_pods_name_is_taken(unplugged: Network) -> None:
    netns = unplugged.node.pod_namespace("one")
    unplugged.node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=netns)
    before = unplugged.node.state()

    assert "exists already" in unplugged.fail("ADD", "one")["msg"]

    unplugged.node.assert_same_state(before)
    assert names(unplugged.node, netns) == {"lo", "eth0"}


def test_a_second_add_fails_and_changes_nothing(network: Network, wire: Neighbours) -> None:
    add(network)

    assert "exists already" in network.fail("ADD", "one")["msg"]
    assert network.ping("one", wire.ipv4[1])


# The namespace is gone, and the kernel has moved the device to the host under the pod's name for it.


def put_back_by_the_kernel(network: Network, pod: str, ifname: str = "eth0") -> None:
    """As the kernel does with hardware; a virtual interface ends with its namespace, so this is done by hand."""
    home = network.node.name
    network.node.run(["ip", "link", "set", ifname, "netns", home], netns=network.namespace(pod))
    remove_namespace(network.namespace(pod))


@pytest.mark.parametrize("netns", [None, ""])
def test_the_namespace_is_gone(network: Network, netns: str | None) -> None:
    node = network.node
    node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    put_back_by_the_kernel(network, "one")
    assert names(node) == {"lo", "eth0"}

    network.succeed("DEL", "one", netns=netns)

    assert_back_without_pod(network, before)


def assert_back_without_pod(network: Network, before: Any) -> None:
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*", "node/namespace/*"], within=HANG)
    assert records(network.node) == []


def test_a_virtual_device_ends_with_the_namespace(network: Network, wire: Neighbours) -> None:
    add(network)
    remove_namespace(network.namespace("one"))
    assert wire.ifname == DEVICE

    ran = network.run("DEL", "one")

    assert (ran.code, f'"{DEVICE}" is gone' in ran.stderr) == (0, True), ran
    network.succeed("DEL", "one")
    assert records(network.node) == []


def test_the_next_add_finds_a_device_that_no_del_has_given_back(network: Network, wire: Neighbours) -> None:
    add(network)
    put_back_by_the_kernel(network, "one")

    add(network, "two")

    assert network.ping("two", wire.ipv4[1])
    assert records(network.node) == ["id-two:eth0"]
    network.succeed("DEL", "one", netns="")
    assert network.ping("two", wire.ipv4[1])
    network.succeed("DEL", "two")
    assert DEVICE in names(network.node)


def test_gc_gives_back(network: Network) -> None:
    node = network.node
    node.pod_namespace("kept")
    node.pod_namespace("lost")
    before = node.state()

    def gc(*valid: str) -> None:
        listed = [{"containerID": f"id-{pod}", "ifname": "eth0"} for pod in valid]
        keys = {"cni.dev/valid-attachments": listed}
        assert node.plugin(network.bin_dir, "host-device", "GC", network.config | keys) == (0, None, "")

    network.succeed("ADD", "lost")
    gc("kept", "lost")
    assert names(node, network.namespace("lost")) == {"lo", "eth0"}

    gc("kept")
    assert_back(network, before, network.namespace("lost"))

    network.succeed("ADD", "lost")
    put_back_by_the_kernel(network, "lost")
    gc("kept")
    assert_back_without_pod(network, before)


def test_gc_gives_a_device_without_a_record_its_name_back(network: Network) -> None:
    add(network)
    for path in network.node.var_lib_cni.glob("host-device/*/*"):
        path.unlink()
    put_back_by_the_kernel(network, "one")
    keys: dict[str, Any] = {"cni.dev/valid-attachments": []}

    assert network.node.plugin(network.bin_dir, "host-device", "GC", network.config | keys) == (0, None, "")

    back = link(network, None, DEVICE)
    assert ("ifalias" in back, back["altnames"]) == (False, ["enp0s31f6"])


@pytest.mark.parametrize("content", [None, "{", '{"name": 7}', "[]"])
def test_a_lost_record(unplugged: Network, content: str | None) -> None:
    add(unplugged)
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    path.unlink() if content is None else path.write_text(content)

    ran = unplugged.run("DEL", "one")

    assert (ran.code, "ignoring a record" in ran.stderr) == (0, content is not None), ran
    assert names(unplugged.node) == {"lo", DEVICE, "uplink1"}
    assert records(unplugged.node) == []


def test_a_record_of_an_earlier_boot(unplugged: Network) -> None:
    add(unplugged)
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    stored = json.loads(path.read_text()) | {"boot": "earlier", "kind": ""}
    remove_namespace(unplugged.namespace("one"))
    until(lambda: unplugged.node.run(["ip", "link", "show", DEVICE], check=False).returncode)
    path.write_text(json.dumps(stored))

    assert unplugged.run("DEL", "one", netns="").code == 0
    assert records(unplugged.node) == []


def test_hardware_that_does_not_come_back_stays_on_record(unplugged: Network) -> None:
    add(unplugged)
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    stored = json.loads(path.read_text())
    del stored["kind"]
    remove_namespace(unplugged.namespace("one"))
    path.write_text(json.dumps(stored))

    ran = unplugged.run("DEL", "one")

    assert (ran.code, "GC or the next ADD" in ran.stderr) == (0, True), ran
    assert records(unplugged.node) == ["id-one:eth0"]


# Which device


def test_two_pods_that_want_one_device(network: Network, wire: Neighbours) -> None:
    add(network)
    network.node.pod_namespace("two")

    for keys in ({}, {"device": "", "hwaddr": link(network, network.namespace("one"))["address"]}, {"name": "other"}):
        error = network.fail("ADD", "two", **keys)

        assert error["code"] == 11
        assert 'in use: it is the interface "eth0" of the container id-one, network "net"' in error["msg"]
    assert network.ping("one", wire.ipv4[1])


@pytest.mark.parametrize("key", ["device", "alternative name", "hwaddr", "hwaddr, as Windows writes it"])
def test_by_name_and_by_mac(network: Network, key: str) -> None:
    address = link(network, None, DEVICE)["address"]
    keys: dict[str, dict[str, Any]] = {
        "device": {"device": DEVICE},
        "alternative name": {"device": "enp0s31f6"},
        "hwaddr": {"device": None, "hwaddr": address},
        "hwaddr, as Windows writes it": {"device": "", "hwaddr": address.upper().replace(":", "-")},
    }
    named = keys[key]

    add(network, **named)
    assert link(network, network.namespace("one"))["address"] == address
    network.succeed("DEL", "one", **named)
    assert DEVICE in names(network.node)


def test_by_kernel_path(unplugged: Network) -> None:
    """All virtual interfaces are those of one device in sysfs, and the first one by name is taken."""
    unplugged.node.run(["ip", "link", "add", "a-first", "type", "veth", "peer", "name", "z-last"])
    path: dict[str, Any] = {"device": None, "kernelpath": "/sys/devices/virtual", "ipam": {}}

    add(unplugged, **path)

    assert names(unplugged.node) >= {"z-last", DEVICE}
    unplugged.succeed("DEL", "one", **path)
    assert "a-first" in names(unplugged.node)


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
def test_wrong_keys_are_told_and_no_obstacle_to_del(
    unplugged: Network, keys: dict[str, Any], code: int, told: str
) -> None:
    unplugged.node.pod_namespace("one")
    before = unplugged.node.state()

    error = unplugged.fail("ADD", "one", **keys)

    assert (error["code"], told in error["msg"]) == (code, True), error
    unplugged.node.assert_same_state(before, ignore=["files/*networks*"])
    add(unplugged, "two")
    assert unplugged.run("DEL", "two", **keys).code == 0
    assert DEVICE in names(unplugged.node)


@pytest.mark.parametrize("mtu", [1300, 1500])
def test_mtu(network: Network, mtu: int) -> None:
    node = network.node
    netns = node.pod_namespace("one")
    before = node.state()
    result = network.succeed("ADD", "one", mtu=mtu)
    assert link(network, netns)["mtu"] == result["interfaces"][0]["mtu"] == mtu
    network.succeed("CHECK", "one", mtu=mtu, prevResult=result)
    node.run(["ip", "link", "set", "eth0", "mtu", "1400"], netns=netns)
    assert "MTU of" in network.fail("CHECK", "one", mtu=mtu, prevResult=result)["msg"]

    network.succeed("DEL", "one", mtu=mtu)

    assert_back(network, before, netns)


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
    result = add(network)
    network.succeed("CHECK", "one", prevResult=result)
    command = damage.replace("netns 1", f"netns {network.node.name}").split(" ")
    network.node.run(command, netns=network.namespace("one"))

    error = network.fail("CHECK", "one", prevResult=result)

    assert (error["code"], told in error["msg"]) == (999, True), error


def test_check_tells_another_device(unplugged: Network) -> None:
    result = add(unplugged, ipam={})
    netns, address = unplugged.namespace("one"), result["interfaces"][0]["mac"]
    unplugged.node.run(["ip", "link", "set", "eth0", "down", "name", "away"], netns=netns)
    unplugged.node.run(["ip", "link", "add", "eth0", "address", address, "up", "type", "bridge"], netns=netns)

    error = unplugged.fail("CHECK", "one", ipam={}, prevResult=result)

    assert error["msg"] == f'"eth0" in the container is not the device "{DEVICE}" of the host'


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
    add(unplugged)
    assert status() == (0, None), "a pod has it"


def test_a_failing_add_leaves_the_device_as_it_was(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    ipam = IPAM | {"routes": [{"dst": "203.0.113.0/24", "gw": "198.51.100.1"}]}

    assert "203.0.113.0/24" in network.fail("ADD", "one", ipam=ipam)["msg"]

    assert_back(network, before, netns)


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_at_every_request_to_the_kernel(
    node: Node, direct_bin_dir: Path, fault_at: FaultAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loan, "_LOCKED", str(node.var_lib_cni))
    monkeypatch.setattr(loan, "_FOLDER", str(node.var_lib_cni / "host-device"))
    node.pod_namespace("one")
    for command in [
        "ip link add dev7 mtu 1450 type veth peer name dev8",
        "ip link set dev8 up",
        "ip address add 192.0.2.1/24 dev dev7",
        "ip link set dev7 up alias before",
        "ip route add 203.0.113.0/24 via 192.0.2.2 dev dev7",
    ]:
        node.run(command.split())
    ipam = {"type": "host-local", "subnet": "192.0.2.0/24", "rangeStart": "192.0.2.10"}
    until_usable(node, "dev7")

    assert fails_at_every_step(node, direct_bin_dir, config(device="dev7", ipam=ipam, mtu=1400), fault_at) > 15


@pytest.mark.parametrize("sends_first", [True, False])
def test_add_is_killed_at_every_request_to_the_kernel(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, *, sends_first: bool
) -> None:
    """DEL gives the device back, wherever the ADD has left it."""
    monkeypatch.setattr(loan, "_LOCKED", str(node.var_lib_cni))
    monkeypatch.setattr(loan, "_FOLDER", str(node.var_lib_cni / "host-device"))
    netns = node.pod_namespace("one")
    node.run(["ip", "link", "add", "dev7", "type", "veth", "peer", "name", "dev8"])
    node.run(["ip", "address", "add", "192.0.2.1/24", "dev", "dev7"])
    before = node.state()
    keys = config(device="dev7", ipam={})

    step, survived = 0, False
    while not survived:
        step += 1
        child = os.fork()
        if child == 0:
            with killed_at(step, sends_first=sends_first):
                os._exit(dispatched(node, direct_bin_dir, "ADD", keys, "one").code)
        survived = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        for _ in range(2):
            assert dispatched(node, direct_bin_dir, "DEL", keys, "one").code == 0
        node.assert_same_state(before, within=HANG)
        assert names(node, netns) == {"lo"}

    assert step > 10


@contextmanager
def killed_at(step: int, *, sends_first: bool) -> Iterator[None]:
    """End this process at its netlink request number `step`, after or before the kernel has it."""
    calls = itertools.count(1)
    send = Socket._send

    def send_or_end(self: Socket, packet: bytes | bytearray) -> None:
        is_last = next(calls) == step
        if not is_last or sends_first:
            send(self, packet)
        if is_last:
            os._exit(9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Socket, "_send", send_or_end)
        yield


# Mixed use with the reference plugin (Debian's)


@pytest.fixture
def reference(network: Network) -> Network:
    if not (REFERENCE_BIN_DIR / "host-device").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    network.config["cniVersion"] = "1.0.0"
    return Network(network.node, REFERENCE_BIN_DIR, network.config)


def test_ours_checks_and_gives_back_the_device_of_the_references_pod(reference: Network, network: Network) -> None:
    netns = network.node.pod_namespace("one")
    result = reference.succeed("ADD", "one")

    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)

    back = link(network, None, DEVICE)
    assert ("ifalias" in back, back["altnames"], back["mtu"]) == (False, ["enp0s31f6"], 1450)
    assert names(network.node, netns) == {"lo"}
    assert list((network.node.var_lib_cni / "networks/net").glob("192.*")) == []


def test_the_reference_checks_and_gives_back_the_device_of_our_pod(reference: Network, network: Network) -> None:
    """Its mark and its record stay, and our next call clears them."""
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    result = network.succeed("ADD", "one")

    reference.succeed("CHECK", "one", prevResult=result)
    reference.succeed("DEL", "one", prevResult=result)
    assert names(network.node) == {"lo", DEVICE}
    assert names(network.node, netns) == {"lo"}

    network.add("two")
    assert records(network.node) == ["id-two:eth0"]
    network.succeed("DEL", "two")
    remove_namespace(network.namespace("two"))
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*", "node/namespace/*"], within=HANG)
