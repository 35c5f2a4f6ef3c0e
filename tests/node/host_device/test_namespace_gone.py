"""The namespace or the record is gone: the device comes back all the same."""

import json
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.masters import names
from tests.node.host_device.devices import (
    DEVICE,
    assert_back,
    assert_back_without_pod,
    device_link,
    put_back_by_the_kernel,
    records,
)
from tests.nodes import Neighbours, until


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("netns", [None, ""])
def test_del_without_namespace_succeeds(network: Network, netns: str | None) -> None:
    node = network.node
    node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    put_back_by_the_kernel(network, "one")
    assert names(node) == {"lo", "eth0"}

    network.succeed("DEL", "one", netns=netns)

    assert_back_without_pod(network, before)


def test_a_virtual_device_ends_with_the_namespace(network: Network, wire: Neighbours) -> None:
    network.add("one")
    remove_namespace(network.namespace("one"))
    assert wire.ifname == DEVICE

    ran = network.run("DEL", "one")

    assert (ran.code, f'"{DEVICE}" is gone' in ran.stderr) == (0, True), ran
    network.succeed("DEL", "one")
    assert records(network.node) == []


def test_the_next_add_finds_a_device_that_no_del_has_given_back(network: Network, wire: Neighbours) -> None:
    network.add("one")
    put_back_by_the_kernel(network, "one")

    network.add("two")

    assert network.ping("two", wire.ipv4[1])
    assert records(network.node) == ["id-two:eth0"]
    network.succeed("DEL", "one", netns="")
    assert network.ping("two", wire.ipv4[1])
    network.succeed("DEL", "two")
    assert DEVICE in names(network.node)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
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
    network.add("one")
    for path in network.node.var_lib_cni.glob("host-device/*/*"):
        path.unlink()
    put_back_by_the_kernel(network, "one")
    keys: dict[str, Any] = {"cni.dev/valid-attachments": []}

    assert network.node.plugin(network.bin_dir, "host-device", "GC", network.config | keys) == (0, None, "")

    back = device_link(network, None, DEVICE)
    assert ("ifalias" in back, back["altnames"]) == (False, ["enp0s31f6"])


@pytest.mark.parametrize("content", [None, "{", '{"name": 7}', "[]"])
def test_a_lost_record(unplugged: Network, content: str | None) -> None:
    unplugged.add("one")
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    path.unlink() if content is None else path.write_text(content)

    ran = unplugged.run("DEL", "one")

    assert (ran.code, "ignoring a record" in ran.stderr) == (0, content is not None), ran
    assert names(unplugged.node) == {"lo", DEVICE, "uplink1"}
    assert records(unplugged.node) == []


def test_a_record_of_an_earlier_boot(unplugged: Network) -> None:
    unplugged.add("one")
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    stored = json.loads(path.read_text()) | {"boot": "earlier", "kind": ""}
    remove_namespace(unplugged.namespace("one"))
    until(lambda: unplugged.node.run(["ip", "link", "show", DEVICE], check=False).returncode)
    path.write_text(json.dumps(stored))

    assert unplugged.run("DEL", "one", netns="").code == 0
    assert records(unplugged.node) == []


def test_hardware_that_does_not_come_back_stays_on_record(unplugged: Network) -> None:
    unplugged.add("one")
    [path] = unplugged.node.var_lib_cni.glob("host-device/*/*")
    stored = json.loads(path.read_text())
    del stored["kind"]
    remove_namespace(unplugged.namespace("one"))
    path.write_text(json.dumps(stored))

    ran = unplugged.run("DEL", "one")

    assert (ran.code, "GC or the next ADD" in ran.stderr) == (0, True), ran
    assert records(unplugged.node) == ["id-one:eth0"]
