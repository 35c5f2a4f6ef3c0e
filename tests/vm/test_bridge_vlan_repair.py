"""What somebody deletes by hand of a bridge's VLANs: CHECK fails, and `cni-harness repair` puts it back."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Cli, bridge_network
from tests.kernel import has_vlan_filtering, lacking
from tests.nodes import HANG, Node, until

KEYS: dict[str, Any] = {"vlan": 100, "vlanTrunk": [{"id": 101}, {"minID": 200, "maxID": 202}], "version": "1.1.0"}
NATIVE = ["PVID", "Egress Untagged"]
EXPECTED: dict[int, list[str]] = {100: NATIVE, 101: [], 200: [], 201: [], 202: []}
GATEWAY = "10.77.0.1"

BREAKS_TRAFFIC = {
    "the bridge": "ip link delete net0",
    "the VLAN of a pod's port": "bridge vlan delete dev {pod} vid 100",
    "its flags": "bridge vlan add dev {pod} vid 100",
    "the VLAN of the gateway's port": "bridge vlan delete dev {gateway} vid 100",
    "the gateway": "ip link delete net0.100",
    "the gateway's place on the bridge": "ip link set {gateway} nomaster",
}
LOSSES = BREAKS_TRAFFIC | {"a VLAN of the trunk": "bridge vlan delete dev {pod} vid 201"}


@pytest.fixture
def cli(node: Node, served_bin_dir: Path, tmp_path: Path) -> Iterator[Cli]:
    if not has_vlan_filtering(node):
        lacking("VLAN filtering on bridges (CONFIG_BRIDGE_VLAN_FILTERING)")
    made = Cli(tmp_path / "cli", served_bin_dir)
    made.configure(bridge_network("net", **KEYS))
    yield made
    made.close()


def run_in(netns: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nsenter", f"--net={netns}", *command], capture_output=True, text=True, timeout=HANG, check=False
    )


def vlans(netns: str) -> dict[str, dict[int, Any]]:
    """What `bridge -j vlan` shows of each port, ranges written out."""
    shown = json.loads(run_in(netns, "bridge", "-j", "vlan", "show").stdout)
    return {
        port["ifname"]: {
            vid: each.get("flags", [])
            for each in port["vlans"]
            for vid in range(each["vlan"], each.get("vlanEnd", each["vlan"]) + 1)
        }
        for port in shown
    }


def test_what_is_deleted_by_hand_comes_back(cli: Cli) -> None:
    node = f"/run/netns/{cli.node}"
    one, two = cli.add("one", "two")
    results = [pod["networks"][0]["result"] for pod in (one, two)]
    port = results[0]["interfaces"][1]["name"]
    [other] = [ip["address"].partition("/")[0] for ip in results[1]["ips"]]
    before = vlans(node)
    [gateway] = set(before) - {"net0", *(result["interfaces"][1]["name"] for result in results)}

    def reaches_others() -> bool:
        return all(run_in(one["netns"], "ping", "-c1", "-W1", each).returncode == 0 for each in (other, GATEWAY))

    assert (before[port], before[gateway]) == (EXPECTED, {100: NATIVE})
    assert reaches_others()
    for loss, command in LOSSES.items():
        lost = run_in(node, *command.format(pod=port, gateway=gateway).split())
        assert lost.returncode == 0, lost
        assert cli.run("check", check=False).returncode != 0, loss
        assert reaches_others() == (loss not in BREAKS_TRAFFIC), loss

        document = json.loads(cli.run("repair", "-o", "json", check=False).stdout)

        assert [each["outcome"] for each in document["attachments"]] == ["ok", "ok"], (loss, document)
        assert vlans(node) == before, loss
        assert until(reaches_others), loss
        checked = cli.run("check", check=False)
        assert checked.returncode == 0, (loss, checked)
