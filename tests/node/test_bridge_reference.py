"""Pods that the reference plugin (Debian's) added: checked and taken away by ours, as on a node that was switched."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node

KEYS = {"cniVersion": "1.0.0", "ipMasq": True, "macspoofchk": True}


@pytest.fixture
def reference_bin_dir() -> Path:
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return REFERENCE_BIN_DIR


@pytest.fixture
def reference(node: Node, reference_bin_dir: Path) -> Network:
    return Network(node, reference_bin_dir, bridge_config(**KEYS))


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


OWN_PARAMETERS = {"net.ipv6.conf.eth0.keep_addr_on_down", "net.ipv6.conf.eth0.ndisc_notify"}
"""Parameters that Debian's release of the reference leaves: addresses outlive a link that goes down, and the like."""


@pytest.mark.parametrize("is_existing", [False, True])
@pytest.mark.parametrize("ranges", [["10.88.0.0/16"], ["10.88.0.0/16", "fd00:88::/64"]])
def test_the_kernels_parameters_are_as_the_reference_sets_them(
    make_node: Callable[[], Node],
    bin_dir: Path,
    reference_bin_dir: Path,
    ranges: list[str],
    *,
    is_existing: bool,
) -> None:
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in ranges]}
    seen = []
    for folder in (bin_dir, reference_bin_dir):
        node = make_node()
        if is_existing:
            node.run(["ip", "link", "add", "br0", "type", "bridge"])
        network = Network(node, folder, bridge_config(cniVersion="1.0.0", ipam=ipam))
        network.add("one")
        seen.append(parameters(node, "br0") | parameters(node, "eth0", network.namespace("one")))
    ours, theirs = seen

    assert {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)} <= OWN_PARAMETERS


def parameters(node: Node, ifname: str, netns: str | None = None) -> dict[str, str]:
    """The kernel parameters of an interface."""
    listed = node.run(["sysctl", "-a", "-r", rf"^net\.ipv[46]\.(conf|neigh)\.{ifname}\."], netns=netns).stdout
    pairs = [line.split(" = ") for line in listed.splitlines()]
    return {key: value for key, value in pairs if not key.endswith(("stable_secret", "base_reachable_time_ms"))}
