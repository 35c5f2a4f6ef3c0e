"""Hosts whose /proc/sys is not all there, as in a container without IPv6 or without privileges."""

import json
from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import Node

READ_ONLY = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys"
NO_IPV6 = "mount -t tmpfs none /proc/sys/net/ipv6"


@pytest.mark.parametrize("mount", [READ_ONLY, NO_IPV6])
def test_an_ipv4_pod_needs_nothing_that_is_missing(node: Node, bin_dir: Path, mount: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipam={"type": "host-local", "subnet": "10.88.0.0/16"}))
    node.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    environment = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": node.pod_namespace("one"),
        "CNI_PATH": str(bin_dir),
    }
    script = f"{mount} && exec {bin_dir}/bridge"

    node.run(["unshare", "--mount", "sh", "-c", script], env=environment, stdin=json.dumps(network.config))
    assert network.ping("one", "10.88.0.1")
