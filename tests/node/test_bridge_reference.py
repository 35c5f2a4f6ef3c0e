"""Pods that the reference plugin (Debian's) added: checked and taken away by ours, as on a node that was switched."""

from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node

KEYS = {"cniVersion": "1.0.0", "ipMasq": True, "macspoofchk": True}


@pytest.fixture
def reference(node: Node) -> Network:
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, bridge_config(**KEYS))


@pytest.fixture
def ours(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config(**KEYS))


def test_check(reference: Network, ours: Network) -> None:
    result = reference.add("one")

    ours.succeed("CHECK", "one", prevResult=result)


def test_del(reference: Network, ours: Network) -> None:
    reference.add("stays")
    reference.add("one")
    reference.succeed("DEL", "one")
    before = ours.node.state()
    result = reference.succeed("ADD", "one")

    ours.succeed("DEL", "one", prevResult=result)
    ours.node.assert_same_state(before, ignore=["files/*last_reserved_ip*", "files/*.owners", "files/*networks/net"])
    ours.succeed("DEL", "one", prevResult=result)
