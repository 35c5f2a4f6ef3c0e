"""dhcp on a node where the reference's plugins and its daemon are, too."""

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.dhcp_servers import Daemon, DhcpServer
from tests.nodes import Node, until


def test_foreign_dhcp_daemon_is_named_in_the_error(direct: Network, daemon: Daemon) -> None:
    """The reference's daemon, which speaks HTTP; and the reference's plugin asks ours."""
    reference = REFERENCE_BIN_DIR / "dhcp"
    if not reference.exists():
        pytest.skip("the reference plugins (Debian: containernetworking-plugins) are not here")
    old = direct.config | {"cniVersion": "1.0.0"}
    direct.node.pod_namespace("one")
    ran = direct.node.plugin(
        reference.parent, "dhcp", "ADD", old, container_id="id", ifname="eth0", netns=direct.namespace("one")
    )
    assert "501 this is the DHCP daemon of cni-harness" in ran.stdout["msg"], ran

    path = daemon.socket.with_name("foreign.sock")
    with direct.node.background([reference, "daemon", "-socketpath", path]):
        until(path.exists)
        error = direct.fail("ADD", "one", ipam=daemon.ipam(daemonSocketPath=str(path)))
    assert (error["code"], "another program than the DHCP daemon of cni-harness listens" in error["msg"]) == (7, True)


def test_pods_of_the_reference(node: Node, direct: Network, daemon: Daemon, server: DhcpServer) -> None:
    """Its daemon forgets all leases when it ends: ours asks the server for them, and releases them."""
    if not (REFERENCE_BIN_DIR / "dhcp").exists():
        pytest.skip("the reference plugins (Debian: containernetworking-plugins) are not here")
    path = daemon.socket.with_name("reference.sock")
    old = {"cniVersion": "1.0.0", "ipam": {"type": "dhcp", "daemonSocketPath": str(path)}}
    reference = Network(node, REFERENCE_BIN_DIR, direct.config | old)
    with node.background([REFERENCE_BIN_DIR / "dhcp", "daemon", "-socketpath", path]):
        until(path.exists)
        results = {pod: reference.add(pod) for pod in ("one", "two", "three")}
        addresses = {pod: direct.addresses(pod)[0] for pod in results}

    direct.succeed("CHECK", "one", prevResult=results["one"])
    assert daemon.files() == ["net/id-one:eth0"]
    for pod in ("one", "two"):
        direct.succeed("DEL", pod, prevResult=results[pod])
        assert server.count(f"DHCPRELEASE(uplink0) {addresses[pod]}") == 1
    assert daemon.files() == []

    # An address that is not the pod's, as the server knows it, is refused.
    ips = [{"address": f"{addresses['one']}/24", "interface": 0}]
    node.run(["ip", "address", "add", f"{addresses['one']}/24", "dev", "eth0"], netns=direct.namespace("three"))
    ran = node.plugin(
        direct.bin_dir,
        "dhcp",
        "CHECK",
        direct.config | {"prevResult": results["three"] | {"ips": ips}},
        container_id="id-three",
        ifname="eth0",
        netns=direct.namespace("three"),
    )
    assert (ran.code, ran.stdout["code"]) == (1, 101)


def test_pods_of_ours_are_deleted_by_the_reference(node: Node, direct: Network, daemon: Daemon) -> None:
    if not (REFERENCE_BIN_DIR / "dhcp").exists():
        pytest.skip("the reference plugins (Debian: containernetworking-plugins) are not here")
    result = direct.add("one")
    path = daemon.socket.with_name("reference.sock")
    old = {"cniVersion": "1.0.0", "ipam": {"type": "dhcp", "daemonSocketPath": str(path)}}
    with node.background([REFERENCE_BIN_DIR / "dhcp", "daemon", "-socketpath", path]):
        until(path.exists)
        Network(node, REFERENCE_BIN_DIR, direct.config | old).succeed("DEL", "one", prevResult=result)
    remove_namespace(direct.namespace("one"))

    # The daemon finds that the pod is gone.
    until(lambda: daemon.files() == [])
