"""Start-up is part of the product: the modules of an ADD and a DEL, seen from the interpreter."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK, bridge_config
from tests.nodes import Node

SLOW = {
    "dataclasses",
    "enum",
    "hashlib",
    "inspect",
    "json",
    "logging",
    "netaddr",
    "pathlib",
    "pyroute2",
    "re",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "typing",
}
"""Modules of 1 to 25 ms."""

ADDRESSES = {"collections", "functools", "ipaddress", "types"}
"""Modules that come with the first address: 3 ms."""
UNNEEDED = {*SLOW, *ADDRESSES, "array", "contextlib", "ctypes", "importlib", "pyroute2", "warnings"}
"""Modules that a DEL needs only if it finds something: each takes 0.3 to 3 ms."""


def loaded_by(node: Node, bin_dir: Path, verb: str, config: dict[str, Any], netns: str | None = None) -> set[str]:
    """Execute a verb, which must succeed; return the modules that its process has imported.

    The pod is at `netns`, or at the node's own path with "-pod".
    """
    environ = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": "pod",
        "CNI_IFNAME": "lo" if config["type"] == "loopback" else "eth0",
        "CNI_NETNS": f"{node.path}-pod" if netns is None else netns,
        "CNI_PATH": str(bin_dir),
    }
    command = [sys.executable, "-IS", "-X", "importtime", bin_dir / config["type"]]
    ran = node.run(command, env=environ, stdin=json.dumps(config))
    return set(re.findall(r"^import time: .*\| +([\w.]+)$", ran.stderr, re.MULTILINE))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"isDefaultGateway": True, "hairpinMode": True, "mtu": 1400},
        {"enabledad": True, "promiscMode": True},
        {"ipMasq": True},
        {"macspoofchk": True},
    ],
    ids=["gateway", "default gateway", "DAD", "masquerade", "spoof check"],
)
def test_bridge_loads_nothing_slow(node: Node, python_bin_dir: Path, keys: dict[str, object]) -> None:
    node.pod_namespace("pod")
    config = bridge_config(**keys)

    loaded = loaded_by(node, python_bin_dir, "ADD", config)

    assert {"plugins.bridge.host", "ipam.store", "netlink.rtnl"} <= loaded
    assert {"skel.trace", "skel.spans", "netlink.spans"} & loaded == set()
    assert {module.partition(".")[0] for module in loaded} & SLOW == set()
    assert node.ip("addr", "show", "dev", "eth0", netns=f"{node.path}-pod")

    loaded = loaded_by(node, python_bin_dir, "DEL", config)

    # DEL waits for the kernel in a thread.
    assert {module.partition(".")[0] for module in loaded} & SLOW <= {"threading"}
    assert not node.run(["ip", "link", "show", "eth0"], netns=f"{node.path}-pod", check=False).stdout


@pytest.mark.parametrize(
    "keys", [{"type": "ptp", "ipMasq": True}, {"type": "macvlan", "master": "uplink0"}], ids=["ptp", "macvlan"]
)
def test_ptp_and_macvlan_load_no_slow_module(node: Node, python_bin_dir: Path, keys: dict[str, object]) -> None:
    node.pod_namespace("pod")
    node.run(["ip", "link", "add", "uplink0", "up", "type", "veth", "peer", "name", "uplink1"])
    node.run(["ip", "link", "set", "uplink1", "up"])
    config = {"cniVersion": "1.1.0", "name": "net", "ipam": DUAL_STACK, **keys}

    for verb in ("ADD", "DEL"):
        loaded = loaded_by(node, python_bin_dir, verb, config)

        assert "plugins.attach.sequence" in loaded, sorted(loaded)
        assert {module.partition(".")[0] for module in loaded} & SLOW <= ({"threading"} if verb == "DEL" else set())


def test_portmap_loads_no_slow_module(node: Node, python_bin_dir: Path) -> None:
    node.pod_namespace("pod")
    result = {"cniVersion": "1.1.0", "ips": [{"address": "10.88.0.2/16"}, {"address": "fd00:88::2/64"}]}
    asked = [{"hostPort": 8080, "containerPort": 80, "protocol": protocol} for protocol in ("tcp", "udp")]
    config = {"cniVersion": "1.1.0", "name": "net", "type": "portmap", "prevResult": result}

    for verb in ("ADD", "CHECK", "DEL", "DEL", "REPAIR"):
        loaded = loaded_by(node, python_bin_dir, verb, {**config, "runtimeConfig": {"portMappings": asked}})

        assert "firewall.port_mappings" in loaded
        assert {module.partition(".")[0] for module in loaded} & SLOW == set()
        assert ("firewall.port_mappings_rules" in loaded) == (verb != "DEL")
    loaded = loaded_by(node, python_bin_dir, "STATUS", config)
    assert {module.partition(".")[0] for module in loaded} & {*SLOW, "ctypes", "netlink", "firewall"} == set()


def test_loopback_verbs_load_no_slow_module(node: Node, python_bin_dir: Path) -> None:
    node.pod_namespace("pod")
    config = {"cniVersion": "1.1.0", "name": "lo", "type": "loopback"}

    for verb in ("ADD", "CHECK", "DEL"):
        loaded = loaded_by(node, python_bin_dir, verb, config)

        assert "netlink.addresses" in loaded
        assert {module.partition(".")[0] for module in loaded} & SLOW == set()


@pytest.mark.parametrize("keys", [{"type": "sbr"}, {"type": "vrf", "vrfname": "blue"}, {"type": "static"}], ids=str)
def test_a_del_of_a_pod_that_is_gone_opens_no_namespace(
    node: Node, python_bin_dir: Path, keys: dict[str, object]
) -> None:
    config = {"cniVersion": "1.1.0", "name": "net", **keys}

    loaded = loaded_by(node, python_bin_dir, "DEL", config)

    assert {module.partition(".")[0] for module in loaded} & SLOW == set()
    assert not {"ctypes", "netlink.namespace"} & loaded


@pytest.mark.parametrize("netns", ["", "/run/netns/removed"], ids=["no netns", "removed netns"])
@pytest.mark.parametrize(
    ("keys", "more"),
    [
        ({"type": "bridge", "ipMasq": True, "ipam": DUAL_STACK}, ADDRESSES),
        ({"type": "bandwidth", "runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 8000}}}, set()),
        ({"type": "firewall"}, set()),
        ({"type": "loopback"}, set()),
        ({"type": "portmap", "runtimeConfig": {"portMappings": [{"hostPort": 80, "containerPort": 80}]}}, set()),
        ({"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}, "mtu": 1400}, set()),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else "",
)
def test_a_repeated_del_loads_only_modules_that_look_for_leftovers(
    node: Node, python_bin_dir: Path, keys: dict[str, object], more: set[str], netns: str
) -> None:
    config = {"cniVersion": "1.0.0", "name": "net", **keys}

    loaded = loaded_by(node, python_bin_dir, "DEL", config, netns)

    assert {module.partition(".")[0] for module in loaded} & UNNEEDED <= more
