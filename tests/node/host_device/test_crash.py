"""ADD fails or is killed at each request to the kernel, and the device comes back."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netlink.socket import Socket
from plugins.host_device import device_record
from tests.masters import names
from tests.node.faults import FaultAt, answer_lost_at, dispatched, failing_at, fails_at_every_step
from tests.node.host_device.devices import (
    config,
)
from tests.nodes import HANG, Node, until_usable


@pytest.mark.mostly_slow(2, "each request to the kernel; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_add_with_any_failed_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, fault_at: FaultAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_record, "_LOCKED", str(node.var_lib_cni))
    monkeypatch.setattr(device_record, "_FOLDER", str(node.var_lib_cni / "host-device"))
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

    assert fails_at_every_step(node, direct_bin_dir, config(device="dev7", ipam=ipam, mtu=1400), fault_at) >= 15


@pytest.mark.parametrize("sends_first", [True, False])
def test_add_is_killed_at_every_request_to_the_kernel(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, *, sends_first: bool
) -> None:
    """DEL gives the device back, wherever the ADD has left it."""
    monkeypatch.setattr(device_record, "_LOCKED", str(node.var_lib_cni))
    monkeypatch.setattr(device_record, "_FOLDER", str(node.var_lib_cni / "host-device"))
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
