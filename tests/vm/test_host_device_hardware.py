"""host-device with hardware: network cards that QEMU emulates, in the machine's first network namespace.

Two cards share a wire: one goes into the pod, the other belongs to the pod's neighbour.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.kernel import IS_FULL
from tests.nodes import HANG, Node, until

CARDS = {"virtio": "52:54:00:00:00:01", "e1000": "52:54:00:00:00:02"}
IPAM = {
    "type": "host-local",
    "ranges": [
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.10"}],
        [{"subnet": "2001:db8::/64", "rangeStart": "2001:db8::10"}],
    ],
}
OWN, NEIGHBOURS = ("192.0.2.1", "2001:db8::1"), ("192.0.2.2", "2001:db8::2")
SOON = 60.0
"""Seconds that the kernel may take to find a neighbour and to probe IPv6 addresses, on an emulated processor."""
KEYS = ["device", "hwaddr", "kernelpath", "pciBusID", "deviceID"]

pytestmark = pytest.mark.skipif(not IS_FULL, reason="this machine's network cards stay where they are")


def command(*args: str, netns: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    inside = ["nsenter", f"--net={netns}"] if netns else []
    return subprocess.run([*inside, *args], capture_output=True, text=True, timeout=HANG, check=check)


def ip(*args: str, netns: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("ip", "-j", *args, netns=netns).stdout or "[]")
    return found


def configure(ifname: str, addresses: tuple[str, str], netns: str | None = None) -> None:
    for address, length in zip(addresses, (24, 64), strict=True):
        command("ip", "address", "add", f"{address}/{length}", "dev", ifname, "nodad", netns=netns)
    command("ip", "link", "set", ifname, "up", netns=netns)


class Card:
    """A network card of the machine."""

    def __init__(self, mac: str) -> None:
        [self.name] = [link["ifname"] for link in ip("link") if link["address"] == mac]
        self.mac = mac
        device = Path(f"/sys/class/net/{self.name}/device").resolve()
        self.kernel_path = str(device)
        self.pci_address = next(part.name for part in (device, *device.parents) if part.name.startswith("0000:"))

    def named_by(self, key: str) -> dict[str, Any]:
        """The configuration's key for it."""
        if key == "deviceID":
            return {"pciBusID": "0000:ff:1f.7", "runtimeConfig": {"deviceID": self.pci_address}}
        values = {"device": self.name, "hwaddr": self.mac, "kernelpath": self.kernel_path}
        return {key: values.get(key, self.pci_address)}

    def state(self) -> dict[str, Any]:
        """Everything that DEL must restore, and the addresses and routes that the kernel makes again."""
        links = [link for link in ip("address") if link["address"] == self.mac]
        kept = ("ifindex", "ifname", "mtu", "flags", "operstate", "ifalias", "altnames")
        return {
            "link": [{key: link.get(key) for key in kept} for link in links],
            "addresses": sorted(
                (each["local"], each["prefixlen"], each.get("tentative", False))
                for link in links
                for each in link["addr_info"]
            ),
            "routes": sorted(
                str(route)
                for link in links
                for family in ("-4", "-6")
                for route in ip(family, "route", "show", "dev", link["ifname"])
            ),
        }


@pytest.fixture
def card(kind: str, node: Node) -> Iterator[Card]:
    """One card on the host, up, with addresses and routes; the other one on the pod's neighbour."""
    [other_kind] = set(CARDS) - {kind}
    card, other = Card(CARDS[kind]), Card(CARDS[other_kind])
    configure(card.name, OWN)
    command("ip", "route", "add", "203.0.113.0/24", "via", NEIGHBOURS[0], "dev", card.name, "metric", "70")
    command("ip", "route", "add", "2001:db8:7::/48", "via", NEIGHBOURS[1], "dev", card.name)
    command("ip", "link", "set", other.name, "netns", node.path)
    configure(other.name, NEIGHBOURS, node.path)
    until(lambda: card.state()["link"][0]["operstate"] == "UP" and "True" not in str(card.state()["addresses"]))
    yield card
    command("ip", "link", "set", other.name, "netns", "1", netns=node.path)
    for each in (card, other):
        command("ip", "link", "set", each.name, "down")
        command("ip", "address", "flush", "dev", each.name)


def assert_back(card: Card, before: dict[str, Any]) -> None:
    """Raise AssertionError unless the card is soon as it was, and reaches its neighbour."""
    deadline = time.monotonic() + SOON
    while card.state() != before and time.monotonic() < deadline:
        time.sleep(0.1)

    assert card.state() == before
    command("ping", "-c1", "-W5", NEIGHBOURS[0])


def run(bin_dir: Path, verb: str, netns: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the plugin in the machine's first network namespace; return its output."""
    config = {"cniVersion": "1.1.0", "name": "net", "type": "host-device", "ipam": IPAM, **keys}
    ran = subprocess.run(
        [bin_dir / "host-device"],
        env={
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "id-one",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": netns,
            "CNI_PATH": os.fspath(bin_dir),
            "PATH": os.environ["PATH"],
        },
        input=json.dumps(config),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert ran.returncode == 0, ran
    result: dict[str, Any] = json.loads(ran.stdout or "{}")
    return result


@pytest.mark.parametrize(
    ("kind", "key"), [*(("virtio", key) for key in KEYS), ("e1000", "device"), ("e1000", "pciBusID")]
)
def test_a_pod_borrows_the_card(card: Card, node: Node, served_bin_dir: Path, key: str) -> None:
    keys, netns = card.named_by(key), node.pod_namespace("one")
    before = card.state()

    result = run(served_bin_dir, "ADD", netns, keys)

    assert card.state()["link"] == []
    [inside] = ip("link", "show", "dev", "eth0", netns=netns)
    assert (inside["address"], inside["ifindex"]) == (card.mac, before["link"][0]["ifindex"])
    for neighbour in NEIGHBOURS:
        command("ping", "-c1", "-W5", neighbour, netns=netns)
    run(served_bin_dir, "CHECK", netns, {**keys, "prevResult": result})

    run(served_bin_dir, "DEL", netns, {**keys, "prevResult": result})
    assert_back(card, before)


@pytest.mark.parametrize("kind", CARDS)
def test_the_kernel_gives_the_card_of_a_namespace_back(card: Card, node: Node, served_bin_dir: Path) -> None:
    """It comes back down, under the pod's name for it, and without addresses."""
    keys, netns = card.named_by("device"), node.pod_namespace("one")
    before = card.state()
    result = run(served_bin_dir, "ADD", netns, keys)

    remove_namespace(netns)
    run(served_bin_dir, "DEL", netns, {**keys, "prevResult": result})

    assert_back(card, before)
