"""A list of six plugins, twice in one pod: each does its work beside the others, and DEL leaves nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.snapshot import Snapshot, differences, take
from tests.cli import Cli
from tests.nodes import HANG, until

# host-local keeps the place where to go on, the bridge stays, and firewall keeps the chain of the administrator.
KEPT = ["files/*/last_reserved_ip*", "files/*/.owners"]
MBIT = 1_000_000

SERVER = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])), reuse_port=True)
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"pod")
    connection.close()
"""
CLIENT = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(9).decode())"


def chain(name: str, subnet: str, **bridge: object) -> dict[str, Any]:
    rates = {"ingressRate": 50 * MBIT, "ingressBurst": MBIT, "egressRate": 50 * MBIT, "egressBurst": MBIT}
    return {
        "cniVersion": "1.0.0",
        "name": name,
        "plugins": [
            {
                "type": "bridge",
                "bridge": f"{name}0",
                "isGateway": True,
                "ipMasq": True,
                **bridge,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "192.0.2.0/24"}]},
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
            {"type": "bandwidth", **rates},
            {"type": "firewall"},
            {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}, "mtu": 1400},
            {"type": "sbr"},
        ],
    }


@pytest.fixture
def cli(own_cli: Cli) -> Cli:
    own_cli.configure(chain("red", "10.61.0.0/16"), chain("blue", "10.62.0.0/16"))
    # The first pod makes what stays: the bridges, and their kernel parameter route_localnet.
    own_cli.run("add", "first", "--network", "red", "--network", "blue", "--publish", "8079:80")
    own_cli.run("del", "first")
    return own_cli


def inside(netns: str, *command: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{Path(netns).name}", "--", *command]


def on_node(cli: Cli, *command: str, netns: str = "") -> str:
    run = subprocess.run(inside(netns or cli.node, *command), capture_output=True, text=True, timeout=HANG, check=False)
    assert run.returncode == 0, run
    return run.stdout


@contextmanager
def serving(netns: str, port: int) -> Iterator[None]:
    """Answer at a TCP port of the pod for as long as the block lasts."""
    command = inside(netns, sys.executable, "-c", SERVER, str(port))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.kill()


def state(cli: Cli) -> Snapshot:
    return take({"node": f"/run/netns/{cli.node}"}, [cli.var_lib_cni])


def left_since(cli: Cli, before: Snapshot) -> list[str]:
    """The differences that stay; the kernel takes links away some time after the end of their namespace."""
    with suppress(AssertionError):
        until(lambda: differences(before, state(cli), ignore=KEPT) == [], within=20)
    return [each.in_words() for each in differences(before, state(cli), ignore=KEPT)]


def shaped(cli: Cli) -> list[str]:
    """The kinds of the queues on the node's side of the pod, sorted; those without a rate are left out."""
    queues = json.loads(on_node(cli, "tc", "-j", "qdisc", "show"))
    return sorted(queue["kind"] for queue in queues if queue["kind"] in {"tbf", "ingress", "clsact"})


def test_each_plugin_of_a_chain_does_its_work_on_both_interfaces(cli: Cli) -> None:
    before = state(cli)
    networks = ["--network", "red", "--network", "blue"]
    [pod] = cli.add("pod", *networks, "--publish", "8080:80")
    netns = pod["netns"]

    assert cli.addresses(netns, "eth0") == {"10.61.0.3/16"}
    assert cli.addresses(netns, "net1") == {"10.62.0.3/16"}
    with serving(netns, 80):
        for address in ("127.0.0.1", "10.61.0.1"):
            answer = on_node(cli, sys.executable, "-c", CLIENT, address, "8080")
            assert answer == "pod\n", address
    # bandwidth: one queue for each direction of each interface.
    assert shaped(cli).count("tbf") == 4
    # tuning
    for ifname in ("eth0", "net1"):
        assert on_node(cli, "cat", f"/proc/sys/net/ipv4/conf/{ifname}/arp_filter", netns=netns) == "1\n"
        assert [link["mtu"] for link in cli.ip("link", "show", "dev", ifname, netns=netns)] == [1400]
    # sbr: a table for each interface, found by the pod's own address.
    rules = {
        rule["src"]: rule["table"] for rule in cli.ip("rule", netns=netns) if "src" in rule and rule["src"] != "all"
    }
    assert rules.keys() == {"10.61.0.3", "10.62.0.3"}
    assert len(set(rules.values())) == 2
    for address, table in rules.items():
        dev = {"10.61.0.3": "eth0", "10.62.0.3": "net1"}[address]
        routes = cli.ip("route", "show", "table", table, netns=netns)
        assert {dev} == {route["dev"] for route in routes}
    # firewall: both addresses are admitted.
    ruleset = on_node(cli, "nft", "list", "table", "inet", "cni_harness_firewall")
    assert "10.61.0.3" in ruleset
    assert "10.62.0.3" in ruleset
    cli.run("check", "pod")

    cli.run("del", "pod")
    assert left_since(cli, before) == []


@pytest.mark.slow("each plugin of a chain; each one's CHECK is in make test")
def test_check_fails_when_one_plugin_of_the_chain_has_lost_its_state(cli: Cli) -> None:
    cli.add("pod", "--network", "red", "--publish", "8080:80")

    on_node(cli, "nft", "delete", "table", "inet", "cni_harness_portmap")

    assert "do not lead to the pod: 8080/tcp" in cli.run("check", "pod", check=False).stdout
    cli.run("del", "pod")
    assert until(lambda: shaped(cli) == [])
