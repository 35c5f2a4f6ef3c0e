"""Fixtures of tests that want a kernel with all drivers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_vlan_filtering, lacking
from tests.nodes import Node


@pytest.fixture
def vlan_node(node: Node) -> Node:
    """A node whose bridges know VLANs."""
    if not has_vlan_filtering(node):
        lacking("VLAN filtering on bridges (CONFIG_BRIDGE_VLAN_FILTERING)")
    return node


@pytest.fixture
def make_network(vlan_node: Node, served_bin_dir: Path) -> Callable[..., Network]:
    """Makes a network on one node at each call, by the keys of its configuration.

    Through the server, which is what makes plugins bearable on an emulated processor; that they do the same
    without it is shown elsewhere.
    """

    def make(**keys: Any) -> Network:
        return Network(vlan_node, served_bin_dir, bridge_config(**keys))

    return make


@pytest.fixture
def make_reference(vlan_node: Node) -> Callable[..., Network]:
    """The same, on the same node, by the reference plugins."""
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")

    def make(**keys: Any) -> Network:
        return Network(vlan_node, REFERENCE_BIN_DIR, bridge_config(cniVersion="1.0.0", **keys))

    return make
