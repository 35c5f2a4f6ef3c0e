"""Mixed use with the reference plugin (Debian's)."""

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.masters import names
from tests.node.host_device.devices import DEVICE, device_link, records
from tests.nodes import HANG, until_usable


@pytest.fixture
def reference(network: Network) -> Network:
    if not (REFERENCE_BIN_DIR / "host-device").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    network.config["cniVersion"] = "1.0.0"
    return Network(network.node, REFERENCE_BIN_DIR, network.config)


def test_ours_checks_and_gives_back_the_device_of_the_references_pod(reference: Network, network: Network) -> None:
    netns = network.node.pod_namespace("one")
    result = reference.succeed("ADD", "one")

    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)

    back = device_link(network, None, DEVICE)
    assert ("ifalias" in back, back["altnames"], back["mtu"]) == (False, ["enp0s31f6"], 1450)
    assert names(network.node, netns) == {"lo"}
    assert list((network.node.var_lib_cni / "networks/net").glob("192.*")) == []


def test_the_reference_checks_and_gives_back_the_device_of_our_pod(reference: Network, network: Network) -> None:
    """Its mark and its record stay, and our next call clears them."""
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    result = network.succeed("ADD", "one")

    reference.succeed("CHECK", "one", prevResult=result)
    reference.succeed("DEL", "one", prevResult=result)
    assert names(network.node) == {"lo", DEVICE}
    assert names(network.node, netns) == {"lo"}

    network.add("two")
    assert records(network.node) == ["id-two:eth0"]
    network.succeed("DEL", "two")
    remove_namespace(network.namespace("two"))
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*", "node/namespace/*"], within=HANG)
