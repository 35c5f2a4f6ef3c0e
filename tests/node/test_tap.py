"""The tap plugin: frames of the pod's interface are read and written by a program of the pod."""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from netlink import tap
from netlink.namespace import Namespace, entered, open_namespace
from tests.attachments import Network
from tests.node.faults import FaultAt, answer_lost_at, dispatched, failing_at, fails_at_every_step
from tests.nodes import Node, until

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.92.0.0/24"}], [{"subnet": "fd00:92::/64"}]]}
MAC = "02:00:00:00:00:09"
TAP, MULTI_QUEUE, NO_PI, TUNSETIFF = 0x0002, 0x0100, 0x1000, 0x400454CA


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "tap", "ipam": IPAM} | keys


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, config())


def link(network: Network, pod: str, ifname: str = "eth0") -> dict[str, Any]:
    found: dict[str, Any]
    [found] = network.node.ip("-d", "link", "show", "dev", ifname, netns=network.namespace(pod))
    return found


def names(node: Node, netns: str) -> set[str]:
    return {each["ifname"] for each in node.ip("link", netns=netns)}


@contextmanager
def opened(netns: str, *, flags: int = TAP | NO_PI) -> Iterator[int]:
    """Open the pod's tap, as a virtual machine does."""
    with open_namespace(netns) as namespace, entered(namespace):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"eth0", flags))
        yield fd
    finally:
        os.close(fd)


def arp_request(fd: int) -> bytes | None:
    """The next request for an IPv4 address, if one has come."""
    try:
        while frame := os.read(fd, 2048):
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1":
                return frame
    except BlockingIOError:
        pass
    return None


def test_a_program_reads_the_pods_frames_and_answers_them(network: Network) -> None:
    result = network.add("one")
    netns = network.namespace("one")
    with opened(netns) as fd:
        pinging = ["ping", "-c1", "-W900", "10.92.0.77"]
        with network.node.background(pinging, netns=netns) as ping:

            def from_the_ping() -> bytes | None:
                asked = arp_request(fd)
                return asked if asked and asked[38:42] == bytes([10, 92, 0, 77]) else None

            request = until(from_the_ping) or b""
            machine = bytes.fromhex("020000000077")
            answer = request[6:12] + machine + request[12:20] + b"\0\2"
            os.write(fd, answer + machine + request[38:42] + request[6:12] + request[28:32])

            def echo() -> bytes | None:
                try:
                    frame = os.read(fd, 2048)
                except BlockingIOError:
                    return None
                return frame if frame[12:14] == b"\x08\0" and frame[34:35] == b"\x08" else None

            packet = until(echo) or b""
            # An echo reply has the request's bytes, with its type and so its checksum changed.
            checksum = (int.from_bytes(packet[36:38]) + 0x800) % 0xFFFF
            reply = packet[6:12] + packet[:6] + packet[12:26] + packet[30:34] + packet[26:30]
            os.write(fd, reply + b"\0\0" + checksum.to_bytes(2) + packet[38:])
            ping.wait(900)

        assert ping.returncode == 0
    assert result["interfaces"][0]["mac"] == link(network, "one")["address"]


def test_result_matches_the_kernel(network: Network) -> None:
    result = network.add("one")

    made = link(network, "one")
    assert result["interfaces"] == [
        {"name": "eth0", "mac": made["address"], "mtu": 1500, "sandbox": network.namespace("one")}
    ]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    settings = made["linkinfo"]["info_data"]
    assert (made["linkinfo"]["info_kind"], settings["type"], settings["persist"]) == ("tun", "tap", True)
    assert not {"user", "group"} & settings.keys()
    assert (settings["pi"], settings["multi_queue"]) == (False, False)
    assert "UP" in made["flags"]
    assert made["ifalias"] == "net/id-one/eth0"


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ({"owner": 1001}, {"user": 1001}),
        ({"owner": 0, "group": 0}, {"user": "root", "group": "root"}),
        ({"group": 2002}, {"group": 2002}),
        ({"multiQueue": True, "owner": 1001, "group": 2002}, {"multi_queue": True, "user": 1001, "group": 2002}),
    ],
)
def test_owner_group_and_multi_queue_are_set_and_checked(
    network: Network, keys: dict[str, Any], seen: dict[str, Any]
) -> None:
    result = network.add("one", **keys)

    settings = link(network, "one")["linkinfo"]["info_data"]
    assert {key: settings.get(key) for key in seen} == seen
    network.succeed("CHECK", "one", prevResult=result, **keys)
    for key, other in {"owner": 7, "group": 7, "multiQueue": not keys.get("multiQueue", False)}.items():
        assert f"{key} of" in network.fail("CHECK", "one", prevResult=result, **(keys | {key: other}))["msg"]


def test_several_queues(network: Network) -> None:
    network.add("one", multiQueue=True)

    flags = TAP | NO_PI | MULTI_QUEUE
    with opened(network.namespace("one"), flags=flags), opened(network.namespace("one"), flags=flags):
        pass
    with pytest.raises(OSError, match="Invalid argument"), opened(network.namespace("one")):
        pass


@pytest.mark.parametrize(
    "keys",
    [
        {"mac": MAC},
        {"mac": MAC, "owner": 1001, "group": 2002},
        {"mac": "02:00:00:00:00:01", "args": f"IgnoreUnknown=1;MAC={MAC}"},
        {"mac": "02:00:00:00:00:01", "args": "MAC=02:00:00:00:00:02", "runtimeConfig": {"mac": MAC}},
    ],
)
def test_mac(network: Network, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)

    assert link(network, "one")["address"] == result["interfaces"][0]["mac"] == MAC


@pytest.mark.parametrize("mtu", [0, 1400, 9000])
def test_mtu(network: Network, mtu: int) -> None:
    result = network.add("one", mtu=mtu)

    assert link(network, "one")["mtu"] == result["interfaces"][0]["mtu"] == (mtu or 1500)


def test_a_bridge_of_the_pod(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    error = network.fail("ADD", "one", bridge="br7")
    assert (error["code"], error["msg"]) == (7, 'bridge: there is no bridge "br7" in the container')
    assert names(network.node, netns) == {"lo"}
    network.node.run(["ip", "link", "add", "br7", "type", "bridge"], netns=netns)

    result = network.succeed("ADD", "one", bridge="br7")

    assert link(network, "one")["master"] == "br7"
    network.succeed("CHECK", "one", bridge="br7", prevResult=result)
    network.node.run(["ip", "link", "set", "eth0", "nomaster"], netns=netns)
    assert "no port of" in network.fail("CHECK", "one", bridge="br7", prevResult=result)["msg"]
    network.succeed("DEL", "one", bridge="br7")
    assert names(network.node, netns) == {"lo", "br7"}


@pytest.mark.parametrize("keys", [{"ipam": {}}, {"ipam": None}])
def test_layer_2_only(network: Network, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)

    assert [result.get("ips", []), result["interfaces"][0]["name"]] == [[], "eth0"]
    assert "UP" in link(network, "one")["flags"]
    network.succeed("CHECK", "one", prevResult=result, **keys)
    network.succeed("DEL", "one", **keys)


@pytest.mark.parametrize(
    "foreign",
    [
        "ip tuntap add mode tap name eth0",
        "ip tuntap add mode tap name eth0 multi_queue",
        "ip tuntap add mode tun name eth0",
        "ip link add eth0 type bridge",
    ],
)
def test_a_foreign_interface_is_never_adopted(network: Network, foreign: str) -> None:
    netns = network.node.pod_namespace("one")
    network.node.run(foreign.split(), netns=netns)
    before = network.node.ip("-d", "link", netns=netns)

    error = network.fail("ADD", "one", mac=MAC, mtu=1400)

    assert "exists already" in error["msg"]
    assert network.node.ip("-d", "link", netns=netns) == before


def test_tap_that_appears_during_the_add_is_not_adopted(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look for the name sees none, and the kernel refuses to make a second one."""
    netns = node.pod_namespace("one")

    def enter_after_another(namespace: Namespace) -> AbstractContextManager[None]:
        node.run(["ip", "tuntap", "add", "mode", "tap", "name", "eth0"], netns=netns)
        return entered(namespace)

    monkeypatch.setattr(tap, "entered", enter_after_another)

    outcome = dispatched(node, direct_bin_dir, "ADD", config(), "one")

    assert b"exists already" in outcome.stdout
    [found] = node.ip("-d", "link", "show", "eth0", netns=netns)
    assert ("ifalias" in found, "UP" in found["flags"]) == (False, False)


@pytest.mark.parametrize("way", ["with the result", "without", "again"])
def test_removal_leaves_nothing(network: Network, way: str) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    result = network.succeed("ADD", "one")

    for _ in range(2 if way == "again" else 1):
        network.succeed("DEL", "one", **({"prevResult": result} if way == "with the result" else {}))
    network.node.assert_same_state(before, ignore=["files/*networks*"])
    assert names(network.node, netns) == {"lo"}


def test_tap_is_removed_while_a_program_has_it_open(network: Network) -> None:
    network.add("one")
    netns = network.namespace("one")

    with opened(netns):
        network.succeed("DEL", "one")

        assert names(network.node, netns) == {"lo"}


def test_del_without_namespace_succeeds(network: Network) -> None:
    network.add("one")

    network.succeed("DEL", "one", netns="")
    network.succeed("DEL", "one", netns="/run/netns/none")

    assert list((network.node.var_lib_cni / "networks/net").glob("10.*")) == []


def test_del_leaves_another_attachments_and_another_kind(network: Network) -> None:
    network.add("one")
    network.add("two")
    network.succeed("DEL", "one", netns=network.namespace("two"))
    assert "eth0" in names(network.node, network.namespace("two"))

    netns = network.node.pod_namespace("three")
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=netns)
    network.succeed("DEL", "three")
    assert "eth0" in names(network.node, netns)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link set eth0 address 02:00:00:00:00:01", "MAC of"),
        ("ip address flush dev eth0 scope global", "is missing"),
        ("ip link delete eth0", '"eth0" is missing'),
    ],
)
def test_check_tells_damage(network: Network, damage: str, told: str) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    network.node.run(damage.split(), netns=network.namespace("one"))

    error = network.fail("CHECK", "one", prevResult=result)

    assert (error["code"], told in error["msg"]) == (999, True), error


def test_check_tells_an_interface_without_ethernet(network: Network) -> None:
    result = network.add("one", ipam={})
    netns = network.namespace("one")
    for command in ["link delete eth0", "tuntap add mode tun name eth0", "link set eth0 up"]:
        network.node.run(["ip", *command.split()], netns=netns)
    result["interfaces"][0]["mac"] = ""

    assert "no tap" in network.fail("CHECK", "one", ipam={}, prevResult=result)["msg"]


def test_status_and_gc(network: Network) -> None:
    network.add("kept")
    network.add("lost")
    valid = [{"containerID": "id-kept", "ifname": "eth0"}]

    ran = network.node.plugin(network.bin_dir, "tap", "GC", network.config | {"cni.dev/valid-attachments": valid})
    assert ran.code == 0, ran
    assert {file.name for file in (network.node.var_lib_cni / "networks/net").glob("10.*")} == {
        network.addresses("kept")[0]
    }
    assert network.node.plugin(network.bin_dir, "tap", "STATUS", network.config).code == 0
    broken = network.config | {"ipam": {"type": "no-such-plugin"}}
    assert network.node.plugin(network.bin_dir, "tap", "STATUS", broken).code == 1


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    "keys",
    [
        {"multiQueue": 1},
        {"owner": -1},
        {"group": 0xFFFFFFFF},
        {"owner": "root"},
        {"mtu": 67},
        {"mac": "none"},
        {"bridge": "a/b"},
        {"selinuxContext": 7},
    ],
)
def test_add_refuses_bad_values_and_del_ignores_them(network: Network, keys: dict[str, Any]) -> None:
    network.node.pod_namespace("one")

    error = network.fail("ADD", "one", **keys)

    assert (error["code"], error["msg"].split(":")[0]) == (7, next(iter(keys)))
    network.add("two")
    assert network.run("DEL", "two", **keys).code == 0
    assert names(network.node, network.namespace("two")) == {"lo"}


def test_a_label_without_selinux(network: Network) -> None:
    if Path("/sys/fs/selinux/enforce").exists():
        pytest.skip("the kernel has SELinux on")
    netns = network.node.pod_namespace("one")
    before = network.node.state()

    error = network.fail("ADD", "one", selinuxContext="system_u:system_r:container_t:s0")

    assert error["code"] == 7
    assert error["msg"].startswith('selinuxContext: SELinux does not take the label "system_u:system_r:container_t:s0"')
    assert names(network.node, netns) == {"lo"}
    network.node.assert_same_state(before, ignore=["files/*networks*"])


def test_tap_is_made_under_the_configured_selinux_label(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel's file is another one here, for want of SELinux; the rest is real."""
    from plugins import tap

    label = tmp_path / "exec"
    label.touch()
    monkeypatch.setattr(tap, "_LABEL_OF_NEXT_PROGRAM", str(label))
    netns = node.pod_namespace("one")
    keys = {"selinuxContext": "a:b:c", "owner": 1001, "group": 2002, "multiQueue": True}

    outcome = dispatched(node, direct_bin_dir, "ADD", config(**keys), "one")

    assert outcome.code == 0, outcome
    # Written over each other: the label of this thread's next program is the policy's again.
    assert label.read_text() == "\n:b:c"
    [found] = node.ip("-d", "link", "show", "eth0", netns=netns)
    settings = found["linkinfo"]["info_data"]
    assert (settings["user"], settings["group"], settings["multi_queue"]) == (1001, 2002, True)
    again = dispatched(node, direct_bin_dir, "ADD", config(**keys), "one")
    assert b"exists already" in again.stdout


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("keys", [{"mac": MAC}, {"owner": 1001, "group": 2002, "multiQueue": True, "mtu": 1400}])
def test_add_with_any_failed_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], fault_at: FaultAt
) -> None:
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config(**keys), fault_at) >= 5


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_failure_after_any_ioctl_leaves_nothing(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The kernel removes a tap that is not kept yet when its file is closed; after that, the undoing does."""
    netns = node.pod_namespace("one")
    before = node.state()
    calls: list[int] = []
    ioctl = fcntl.ioctl

    def fail_after(fd: int, request: int, *args: Any) -> Any:
        done = ioctl(fd, request, *args)
        if request >> 8 != TUNSETIFF >> 8:
            return done
        calls.append(request)
        if len(calls) == step:
            raise OSError(5, "fault injected by the test")
        return done

    monkeypatch.setattr(fcntl, "ioctl", fail_after)

    outcome = dispatched(node, direct_bin_dir, "ADD", config(owner=1, group=2), "one")

    assert (outcome.code, b"injected" in outcome.stdout) == (1, True), outcome
    assert names(node, netns) == {"lo"}
    node.assert_same_state(before, ignore=["files/*networks*"])
