"""`cni-harness` on a host that has another program's network list in /etc/cni/net.d, and not its plugins."""

import json
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.nodes import Node

OWN_LIST = "/conf/10-cni-harness.conflist"
THEIRS = {"cniVersion": "1.0.0", "name": "theirs", "plugins": [{"type": "theirs"}]}


def test_own_network_list_is_found_beside_foreign_lists(container_host: Node) -> None:
    run = container_host.run(["cni-harness", "add", "pod1", "--network", "cni-harness", "-o", "json"])

    (pod,) = json.loads(run.stdout)["pods"]
    (link,) = container_host.ip("-n", Path(pod["netns"]).name, "address", "show", "eth0")
    assert "10.86.0.2" in [address["local"] for address in link["addr_info"]]
    said = next(line for line in run.stderr.splitlines() if line.startswith("No network cni-harness"))
    assert said.startswith("No network cni-harness in /etc/cni/net.d: using this project's own, ")
    assert said.endswith(OWN_LIST)
    container_host.run(["cni-harness", "del", "pod1", "--prune"])


def test_a_network_of_the_folder_comes_before_one_of_this_project(container_host: Node) -> None:
    single = {"cniVersion": "1.0.0", "name": "cni-harness", "plugins": [{"type": "noop"}]}
    container_host.run(["tee", "/etc/cni/net.d/99-mine.conflist"], stdin=json.dumps(single))

    run = container_host.run(["cni-harness", "add", "pod1", "--network", "cni-harness", "-o", "json"])

    assert "No network cni-harness" not in run.stderr
    assert json.loads(run.stdout)["pods"][0]["networks"][0]["result"].get("ips", []) == []
    container_host.run(["cni-harness", "del", "pod1"])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_error_for_a_missing_plugin_names_the_ways_out(container_host: Node) -> None:
    container_host.run(["tee", "/etc/cni/net.d/05-theirs.conflist"], stdin=json.dumps(THEIRS))
    script = "mkdir /opt/theirs && cat > /opt/theirs/theirs && chmod +x /opt/theirs/theirs"
    container_host.run(["sh", "-c", script], stdin='#!/bin/sh\necho \'{"cniVersion": "1.0.0"}\'\n')

    failed = container_host.run(["cni-harness", "add", "pod1"], check=False)

    assert failed.returncode == 1
    error = failed.stderr.splitlines()[-1]
    assert 'no executable "theirs" (searched: /opt/cni/bin)' in error
    assert "network theirs (/etc/cni/net.d/05-theirs.conflist) needs it" in error
    assert all(option in error for option in ("--bin-dir", "--network", "--conf-dir"))
    assert container_host.run(["cni-harness", "list", "-o", "json"]).stdout == '{\n  "pods": []\n}\n'

    # Each of them leads out.
    for pod, *way in (
        ("pod1", "--network", "bridge-ipv4"),
        ("pod2", "--bin-dir", "/opt/theirs"),
        ("pod3", "--conf-dir", str(ROOT / "conf")),
    ):
        container_host.run(["cni-harness", "add", pod, *way])
        container_host.run(["cni-harness", "del", pod])


def test_status_names_options_for_foreign_lists(container_host: Node) -> None:
    container_host.run(["tee", "/etc/cni/net.d/05-theirs.conflist"], stdin=json.dumps(THEIRS))

    failed = container_host.run(["cni-harness", "status", "-o", "json"], check=False)

    theirs, podman = json.loads(failed.stdout)["networks"]
    assert (theirs["ready"], podman["ready"]) == (False, True)
    assert all(option in theirs["message"] for option in ("--bin-dir", "--network", "--conf-dir"))


def test_unknown_network_name_lists_own_and_foreign_networks(container_host: Node) -> None:
    failed = container_host.run(["cni-harness", "add", "pod1", "--network", "nowhere"], check=False)

    assert "no network named nowhere (there are: podman; of this project: cni-harness, bridge-ipv4, " in failed.stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_nothing_of_a_network_is_left_though_its_pods_were_deleted_one_by_one(container_host: Node) -> None:
    container_host.run(["cni-harness", "add", "pod1", "pod2", "--network", "cni-harness"])
    container_host.run(["cni-harness", "del", "pod1", "pod2"])
    container_host.run(["ip", "link", "add", "theirs0", "type", "bridge"])

    run = container_host.run(["cni-harness", "del", "--all", "--prune"])

    assert run.stderr.splitlines() == [
        "Removed cni-harness0, which had no ports left",
        "net.ipv4.ip_forward stays 1: other software may count on it",
        "net.ipv6.conf.all.forwarding stays 1: other software may count on it",
    ]
    assert [link["ifname"] for link in container_host.ip("link")] == ["lo", "theirs0"]
    assert container_host.run(["cni-harness", "del", "--all", "--prune"]).stderr == ""
