"""The dhcp plugin and its daemon, against real servers in a neighbouring node."""

import json
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.dhcp_servers import Daemon, DhcpServer, dnsmasq, macvlan_config, running_daemon
from tests.node.faults import failing_at, fails_at_every_step
from tests.nodes import HANG, Node, until


@pytest.fixture
def network(node: Node, bin_dir: Path, server: DhcpServer, daemon: Daemon) -> Network:
    return Network(node, bin_dir, macvlan_config(daemon))


def test_a_pod_has_a_lease_until_it_is_deleted(network: Network, server: DhcpServer, daemon: Daemon) -> None:
    result = network.add("one")

    [address] = network.addresses("one")
    [ip] = result["ips"]
    assert ip == {"address": f"{address}/24", "gateway": "192.0.2.2", "interface": 0}
    assert result["routes"] == [{"dst": "0.0.0.0/0", "gw": "192.0.2.2"}]
    assert network.ping("one", "192.0.2.2")
    assert daemon.files() == ["net/id-one:eth0"]
    network.succeed("CHECK", "one", prevResult=result)

    network.succeed("DEL", "one", prevResult=result)
    assert server.count(f"DHCPRELEASE(uplink0) {address}") == 1
    assert daemon.files() == []
    network.succeed("DEL", "one", prevResult=result)


def test_a_pod_that_is_gone_is_deleted(direct: Network, daemon: Daemon) -> None:
    result = direct.add("one")
    remove_namespace(direct.namespace("one"))

    direct.succeed("DEL", "one", prevResult=result, netns="")

    assert daemon.files() == []
    direct.succeed("DEL", "one", prevResult=result, netns=direct.namespace("one"))


def test_options_are_provided_and_requested(direct: Network, server: DhcpServer) -> None:
    direct.config["ipam"] |= {
        "provide": [
            {"option": "host-name", "value": "nobody", "fromArg": "K8S_POD_NAME"},
            {"option": "60", "value": "a-class"},
        ],
        "request": [{"skipDefault": False}, {"option": "121"}, {"option": "ntp-servers"}],
        "priority": 77,
    }

    result = direct.add("one", args="IgnoreUnknown=1;K8S_POD_NAME=web-0")

    assert server.count("client provides name: web-0") > 0
    assert server.count("vendor class: a-class") > 0
    assert server.count("requested options: 121:classless-static-route, 42:ntp-server") > 0
    assert result["routes"] == [{"dst": "0.0.0.0/0", "gw": "192.0.2.2", "priority": 77}]
    [route] = direct.node.ip("route", "show", "default", netns=direct.namespace("one"))
    assert route["metric"] == 77


def test_classless_routes_come_instead_of_the_router(node: Node, neighbour: Node, daemon: Daemon) -> None:
    network = Network(node, daemon.bin_dir, macvlan_config(daemon, request=[{"option": "121"}]))
    routes = "--dhcp-option=121,10.9.0.0/16,192.0.2.2,10.8.0.0/16,0.0.0.0"
    with dnsmasq(neighbour, routes):
        result = network.add("one")

        assert result["routes"] == [
            {"dst": "10.9.0.0/16", "gw": "192.0.2.2"},
            {"dst": "10.8.0.0/16", "gw": "0.0.0.0", "scope": 253},
        ]
        found = {each["dst"]: each for each in node.ip("route", netns=network.namespace("one"))}
        assert found["10.9.0.0/16"]["gateway"] == "192.0.2.2"
        assert (found["10.8.0.0/16"]["scope"], "gateway" in found["10.8.0.0/16"]) == ("link", False)
        network.succeed("CHECK", "one", prevResult=result)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"provide": [{"option": "hostname"}]}, "ipam.provide[0].option: expected the name of a DHCP option"),
        ({"provide": [{"option": "12", "value": "x" * 256}]}, "ipam.provide[0].value: expected a value of at most 255"),
        ({"provide": [{"option": "53", "value": "x"}]}, "ipam.provide[0].option: expected an option that a client"),
        ({"request": [{"option": "256"}]}, "ipam.request[0].option: expected"),
        ({"priority": -1}, "ipam.priority: expected a priority from 0"),
        ({"ipv4": False}, "ipam.ipv6: expected true if ipam.ipv4 is false, got false"),
        ({"daemonSocketPath": "dhcp.sock"}, "ipam.daemonSocketPath: expected an absolute path"),
    ],
)
def test_a_bad_key_is_named_and_nothing_is_changed(
    node: Node, direct_bin_dir: Path, neighbour: Node, daemon: Daemon, keys: dict[str, Any], words: str
) -> None:
    network = Network(node, direct_bin_dir, macvlan_config(daemon, **keys))
    node.pod_namespace("one")
    before = node.state()

    error = network.fail("ADD", "one")

    assert (error["code"], error["msg"][: len(words)]) == (7, words)
    node.assert_same_state(before)
    # Without a key that says where the lease is, DEL must not say that it is gone.
    assert network.run("DEL", "one").code == int("daemonSocketPath" in keys)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_without_a_server_nothing_is_left(node: Node, neighbour: Node, direct_bin_dir: Path) -> None:
    with running_daemon(node, direct_bin_dir, "-resendtimeout", "1s") as daemon:
        network = Network(node, direct_bin_dir, macvlan_config(daemon))
        node.pod_namespace("one")
        before = node.state()

        error = network.fail("ADD", "one")

        assert (error["code"], error["msg"]) == (11, 'no DHCPv4 server answers on "eth0" within 1 s')
        node.assert_same_state(before)
        assert node.ip("link", "show", "type", "macvlan", netns=network.namespace("one")) == []


def test_add_of_dhcp_is_undone_if_its_caller_ends(direct: Network, daemon: Daemon, server: DhcpServer) -> None:
    direct.add("one")
    server.stop()
    direct.node.pod_namespace("two")
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "id-two",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": direct.namespace("two"),
        "CNI_PATH": str(direct.bin_dir),
    }
    command = direct.node.command([direct.bin_dir / "macvlan"])
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(direct.config).encode())
        process.stdin.close()
        until(lambda: daemon.sockets() > 1)  # one in the pod
        process.kill()
        process.wait(HANG)

    until(lambda: daemon.sockets() == 0)
    assert daemon.files() == ["net/id-one:eth0"]


def test_gc_releases_the_leases_of_attachments_that_are_gone(direct: Network, daemon: Daemon) -> None:
    for pod in ("one", "two", "three"):
        direct.add(pod)
    other = direct.config | {"name": "other"}
    direct.node.pod_namespace("four")
    direct.succeed("ADD", "four", **other)
    direct.config |= {"cni.dev/valid-attachments": [{"containerID": "id-two", "ifname": "eth0"}]}

    direct.succeed("GC", "one")

    assert daemon.files() == ["net/id-two:eth0", "other/id-four:eth0"]
    daemon.kill()
    direct.config |= {"cni.dev/valid-attachments": []}
    ran = direct.run("GC", "one")
    assert (ran.code, daemon.files()) == (0, ["other/id-four:eth0"])
    assert "the DHCP server is not told that 1 leases end" in ran.stderr


def test_leases_of_pods_that_are_gone_end_with_the_start_of_the_daemon(direct: Network, daemon: Daemon) -> None:
    for pod in ("one", "two"):
        direct.add(pod)
    daemon.kill()
    remove_namespace(direct.namespace("one"))
    (daemon.data_dir / "net" / "id-three:eth0").write_text("{")

    daemon.restart()

    assert daemon.files() == ["net/id-two:eth0"]
    direct.succeed("DEL", "two")


def test_daemon_starts_beside_entries_that_are_no_leases(direct: Network, daemon: Daemon, tmp_path: Path) -> None:
    result = direct.add("one")
    daemon.kill()
    folder = daemon.data_dir / "net"
    (folder / "id-two:eth0").mkdir()
    os.mkfifo(folder / "id-three:eth0")
    (folder / "id-four:eth0").symlink_to(tmp_path / "elsewhere")
    (folder / "README").write_text("a note")
    (daemon.data_dir / "not a network").mkdir()
    strays = ["README", "id-four:eth0", "id-three:eth0", "id-two:eth0"]

    daemon.restart()

    for name in strays:
        assert f"{folder / name}: not a file of a lease: left alone" in daemon.log()
    assert sorted(path.name for path in folder.iterdir()) == sorted([*strays, "id-one:eth0"])
    direct.succeed("CHECK", "one", prevResult=result)
    direct.succeed("DEL", "one")
    assert not (folder / "id-one:eth0").exists()


def test_without_the_daemon(direct: Network, daemon: Daemon) -> None:
    result = direct.add("one")
    daemon.kill()

    for verb in ("CHECK", "ADD"):
        ifname = "eth0" if verb == "CHECK" else "eth1"
        error = direct.fail(verb, "one", prevResult=result, ifname=ifname)
        assert (error["code"], "no DHCP daemon listens at" in error["msg"]) == (11, True)
    ran = direct.run("DEL", "one", prevResult=result)
    assert (ran.code, daemon.files()) == (0, [])
    assert "the DHCP server is not told that the lease ends" in ran.stderr


def test_status_fails_only_after_longer_than_a_restart_takes(direct: Network, daemon: Daemon) -> None:
    direct.succeed("STATUS", "one")
    daemon.kill()
    away = daemon.socket.with_name("dhcp.sock.away")

    ran = direct.run("STATUS", "one")
    assert (ran.code, "warning: no DHCP daemon listens" in ran.stderr) == (0, True)
    away.write_text(f"{float(away.read_text()) - 31}")
    error = direct.fail("STATUS", "one")
    assert (error["code"], "so it is for 31 s" in error["msg"]) == (50, True)

    daemon.restart()
    direct.succeed("STATUS", "one")
    assert not away.exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_failing_add_has_no_lease(
    node: Node, direct: Network, daemon: Daemon, server: DhcpServer, direct_bin_dir: Path
) -> None:
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, direct.config, failing_at) >= 8

    # The last one has succeeded.
    assert daemon.files() == ["net/id-one:eth0"]
    direct.succeed("DEL", "one")
    assert (daemon.files(), daemon.stop()) == ([], 0)
    assert daemon.log().splitlines()[-1].endswith("ends, 0 attachments have leases")
    assert server.count("DHCPACK(uplink0)") == server.count("DHCPRELEASE(uplink0)")


def test_a_lease_that_cannot_be_noted_is_no_lease(direct: Network, daemon: Daemon, server: DhcpServer) -> None:
    daemon.data_dir.write_text("no folder")
    direct.node.pod_namespace("one")

    error = direct.fail("ADD", "one")

    assert (error["code"], "the DHCP daemon cannot note the lease" in error["msg"]) == (5, True)
    assert server.count("DHCPRELEASE(uplink0)") == 1
    daemon.data_dir.unlink()


def test_systemd_hands_the_socket_over(node: Node, direct_bin_dir: Path, neighbour: Node, tmp_path: Path) -> None:
    """A question that came before the daemon is answered."""
    path = tmp_path / "dhcp.sock"
    script = 'exec 3<&"$1" && shift && LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
    daemon = [direct_bin_dir / "dhcp", "daemon", "-datadir", tmp_path / "leases"]
    keys = {"type": "dhcp", "daemonSocketPath": str(path)}
    network = Network(node, direct_bin_dir, {"cniVersion": "1.1.0", "name": "net", "type": "dhcp", "ipam": keys})
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor() as pool:
        listening.bind(str(path))
        listening.listen()
        gc = pool.submit(network.succeed, "GC", "one", **{"cni.dev/valid-attachments": []})
        command = ["bash", "-c", script, "bash", str(listening.fileno()), *map(str, daemon)]
        with subprocess.Popen(command, pass_fds=[listening.fileno()]) as process:
            assert gc.result(HANG) is None
            process.terminate()
            assert process.wait(HANG) == 0
    assert path.exists()
