"""Devices that host-device finds by their place on a bus, in a sysfs that stands for a machine with such hardware."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netlink import sysfs
from plugins.host_device import device_record
from tests.node.faults import dispatched
from tests.nodes import Node

PCI, AUXILIARY = "0000:3b:02.1", "mlx5_core.sf.4"


@pytest.fixture
def machine(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sysfs; the node has two devices."""
    root = tmp_path / "sys"
    for number in (7, 8):
        node.run(["ip", "link", "add", f"dev{number}", "type", "veth", "peer", "name", f"peer{number}"])
    node.pod_namespace("one")

    @contextmanager
    def own_root() -> Iterator[int]:
        fd = os.open(root, os.O_RDONLY)
        yield fd
        os.close(fd)

    monkeypatch.setattr(device_record, "_LOCKED", str(node.var_lib_cni))
    monkeypatch.setattr(device_record, "_FOLDER", str(node.var_lib_cni / "host-device"))
    monkeypatch.setattr(sysfs, "_SYS", str(root))
    monkeypatch.setattr(sysfs, "_own_root", own_root)
    return root


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "host-device", "ipam": {}} | keys


def driven_by(device: Path, driver: str) -> None:
    (device.parent / "drivers" / driver).mkdir(parents=True)
    (device / "driver").symlink_to(device.parent / "drivers" / driver)


@pytest.mark.parametrize(
    ("folder", "keys"),
    [
        (f"bus/pci/devices/{PCI}/net", {"pciBusID": PCI}),
        (f"bus/pci/devices/{PCI}/virtio3/net", {"pciBusID": PCI}),
        (f"bus/pci/devices/{PCI}/net", {"runtimeConfig": {"deviceID": PCI}}),
        (f"bus/pci/devices/{PCI}/net", {"pciBusID": "0000:00:00.0", "runtimeConfig": {"deviceID": PCI}}),
        (f"bus/auxiliary/devices/{AUXILIARY}/net", {"runtimeConfig": {"deviceID": AUXILIARY}}),
        ("devices/platform/soc/net", {"kernelpath": "/sys/devices/platform/soc/"}),
    ],
)
def test_the_first_interface_of_the_device(
    node: Node, direct_bin_dir: Path, machine: Path, folder: str, keys: dict[str, Any]
) -> None:
    for number in (8, 7):
        (machine / folder / f"dev{number}").mkdir(parents=True)

    outcome = dispatched(node, direct_bin_dir, "ADD", config(**keys), "one")

    assert outcome.code == 0, outcome
    [moved] = node.ip("link", "show", "eth0", netns=f"{node.path}-one")
    assert moved["ifalias"] == "dev7"
    assert dispatched(node, direct_bin_dir, "DEL", config(**keys), "one").code == 0
    assert "ifalias" not in node.ip("link", "show", "dev7")[0]


def test_a_device_without_an_interface(node: Node, direct_bin_dir: Path, machine: Path) -> None:
    (machine / f"bus/pci/devices/{PCI}").mkdir(parents=True)

    outcome = dispatched(node, direct_bin_dir, "ADD", config(pciBusID=PCI), "one")

    assert f'pciBusID: there is no interface for \\"{PCI}\\" on the host'.encode() in outcome.stdout


@pytest.mark.parametrize("driver", ["vfio-pci", "uio_pci_generic", "igb_uio"])
@pytest.mark.parametrize("keys", [{"pciBusID": PCI}, {"runtimeConfig": {"deviceID": PCI}}])
def test_a_program_drives_the_device(
    node: Node, direct_bin_dir: Path, machine: Path, driver: str, keys: dict[str, Any]
) -> None:
    """No interface moves; the pod has addresses in its result."""
    (device := machine / f"bus/pci/devices/{PCI}").mkdir(parents=True)
    driven_by(device, driver)
    before = node.state()
    keys = keys | {"ipam": {"type": "host-local", "subnet": "10.98.0.0/24"}}

    outcome = dispatched(node, direct_bin_dir, "ADD", config(**keys), "one")

    assert outcome.code == 0, outcome
    result = json.loads(outcome.stdout)
    assert result["interfaces"] == [{"name": "eth0", "sandbox": f"{node.path}-one"}]
    assert [(ip["address"], ip["interface"]) for ip in result["ips"]] == [("10.98.0.2/24", 0)]
    for verb in ("CHECK", "DEL", "DEL"):
        done = dispatched(node, direct_bin_dir, verb, config(**keys, prevResult=result), "one")
        assert done.code == 0, done
    node.assert_same_state(before, ignore=["files/*networks*"])
    assert [link["ifname"] for link in node.ip("link", netns=f"{node.path}-one")] == ["lo"]
