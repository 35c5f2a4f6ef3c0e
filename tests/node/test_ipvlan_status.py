"""STATUS of ipvlan: whether the master is there that an ADD would take. The kernel needs no ipvlan for it."""

from pathlib import Path
from typing import Any

import pytest

from tests.nodes import Node

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}
NO_ROUTE = "master: it is not set, and there is no default route to take it from"


def status(node: Node, bin_dir: Path, **keys: Any) -> tuple[int, str]:
    config = {"cniVersion": "1.1.0", "name": "net", "type": "ipvlan", **keys}
    ran = node.plugin(bin_dir, "ipvlan", "STATUS", config)
    return (0, "") if ran.code == 0 else (ran.stdout["code"], ran.stdout["msg"])


def test_status_without_master_needs_a_default_route_if_ipam_is_set(node: Node, served_bin_dir: Path) -> None:
    assert status(node, served_bin_dir, ipam=IPAM) == (50, NO_ROUTE)
    assert status(node, served_bin_dir) == (0, "")

    node.run(["ip", "link", "add", "uplink0", "type", "bridge"])
    node.run(["ip", "link", "set", "uplink0", "up"])
    node.run(["ip", "address", "add", "192.0.2.1/24", "dev", "uplink0"])
    node.run(["ip", "route", "add", "default", "via", "192.0.2.2"])

    assert status(node, served_bin_dir, ipam=IPAM) == (0, "")


@pytest.mark.parametrize("keys", [{}, {"ipam": IPAM}])
def test_status_with_a_missing_master_is_not_available(node: Node, served_bin_dir: Path, keys: dict[str, Any]) -> None:
    assert status(node, served_bin_dir, master="uplink9", **keys) == (50, 'master: there is no interface "uplink9"')
