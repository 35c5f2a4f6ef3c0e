"""Parts of a bridge and its VLANs that are deleted by hand: CHECK fails, and REPAIR puts them back."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.cli import Cli, bridge_network
from tests.nodes import HANG, Node, until

NATIVE = ["PVID", "Egress Untagged"]
LOSSES = {
    "the bridge": "ip link delete br0",
    "the VLAN of a pod's port": "bridge vlan delete dev {pod} vid 100",
    "its flags": "bridge vlan add dev {pod} vid 100",
    "the VLAN of the gateway's port": "bridge vlan delete dev {gateway} vid 100",
    "the gateway": "ip link delete br0.100",
    "the gateway's place on the bridge": "ip link set {gateway} nomaster",
}
IN_USE = {"vlan": 100, "vlanTrunk": [{"id": 101}, {"minID": 200, "maxID": 202}]}
SOON = 120.0
"""Seconds until traffic flows, at most: on an emulated processor that other machines use, too."""


def vlans(node: Node) -> dict[str, dict[int, Any]]:
    """What `bridge -j vlan` shows of each port, ranges written out."""
    return {
        port["ifname"]: {
            vid: each.get("flags", [])
            for each in port["vlans"]
            for vid in range(each["vlan"], each.get("vlanEnd", each["vlan"]) + 1)
        }
        for port in json.loads(node.run(["bridge", "-j", "vlan", "show"]).stdout)
    }


def test_repair_restores_each_deleted_part(make_network: Callable[..., Network]) -> None:
    network = make_network(ipam={"type": "host-local", "subnet": "10.88.0.0/24"}, **IN_USE)
    node = network.node
    results = {pod: network.add(pod) for pod in ("one", "two")}
    pod, other = (result["interfaces"][1]["name"] for result in results.values())
    before = vlans(node)
    [gateway] = set(before) - {"br0", pod, other}
    addresses = [*network.addresses("two"), "10.88.0.1"]

    def reaches_others() -> bool:
        return all(network.ping("one", each) for each in addresses)

    def check() -> int:
        return sum(network.run("CHECK", each, prevResult=results[each]).code for each in results)

    def repair() -> None:
        for each, result in results.items():
            network.succeed("REPAIR", each, prevResult=result)

    assert before[pod] == {100: NATIVE, 101: [], 200: [], 201: [], 202: []}
    assert before[gateway] == {100: NATIVE}
    assert reaches_others()
    for loss, command in LOSSES.items():
        node.run(command.format(pod=pod, gateway=gateway).split())
        assert check() > 0, loss
        assert not reaches_others(), loss

        repair()

        assert (check(), vlans(node)) == (0, before), loss
        until(reaches_others, within=SOON)

    node.run(["bridge", "vlan", "delete", "dev", pod, "vid", "201"])
    assert check() > 0
    repair()
    assert (check(), vlans(node)) == (0, before)


@pytest.mark.usefixtures("vlan_node")
def test_the_command_line_repairs_vlans(served_bin_dir: Path, tmp_path: Path) -> None:
    cli = Cli(tmp_path / "cli", served_bin_dir)
    try:
        cli.configure(bridge_network("net", vlan=100, version="1.1.0"))
        [pod] = cli.add("one")
        port = pod["networks"][0]["result"]["interfaces"][1]["name"]

        def on(netns: str, *command: str) -> subprocess.CompletedProcess[str]:
            line = ["nsenter", f"--net={netns}", *command]
            return subprocess.run(line, capture_output=True, text=True, timeout=HANG, check=False)

        def reaches_gateway() -> bool:
            return on(pod["netns"], "ping", "-c1", "-W2", "10.77.0.1").returncode == 0

        assert until(reaches_gateway, within=SOON)
        for loss in (f"bridge vlan delete dev {port} vid 100", "ip link delete net0"):
            assert on(f"/run/netns/{cli.node}", *loss.split()).returncode == 0
            assert not reaches_gateway(), loss

            cli.run("repair")

            cli.run("check")
            assert until(reaches_gateway, within=SOON), loss
    finally:
        cli.close()
