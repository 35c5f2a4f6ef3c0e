"""`cni-harness agent` on two nodes: routes, forwarding, masquerading and the network list, made and taken back."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from agent.kernel import PROTOCOL
from agent.plan import TUNNEL
from firewall.cluster_masquerade import TABLE
from netlink.namespace import entered, open_namespace
from tests.cli import ROOT
from tests.nodes import HANG, Node, until, veth_between

pytestmark = pytest.mark.sudo

LIST = "10-cni-harness-agent.conflist"
CLUSTER = "10.244.0.0/16,fd00:10:244::/56"
FORWARDING = "net.ipv6.conf.all.forwarding"


class Pair:
    """Two nodes on one wire, and manifests of both."""

    def __init__(self, nodes: list[Node], folder: Path, bin_dir: Path) -> None:
        self.nodes = nodes
        self.manifests = folder / "manifests"
        self.folder = folder
        self.bin_dir = bin_dir
        self.manifests.mkdir()
        for number in range(2):
            self.write(number)

    def write(self, number: int, **spec: Any) -> None:
        addresses = [f"192.0.2.{number + 1}", f"2001:db8:0::{number + 1}"]
        node = {
            "kind": "Node",
            "metadata": {"name": f"node-{number}"},
            "spec": spec or {"podCIDRs": [f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"]},
            "status": {"addresses": [{"type": "InternalIP", "address": each} for each in addresses]},
        }
        (self.manifests / f"node-{number}.json").write_text(json.dumps(node))

    def words(self, number: int, *args: str) -> list[str]:
        own = self.folder / f"host-{number}"
        (own / "net.d").mkdir(parents=True, exist_ok=True)
        folders = [f"--state-dir={own / 'state'}", f"--conf-dir={own / 'net.d'}", f"--bin-dir={self.bin_dir}"]
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "harness.cli.main", *folders, *args]

    def run(self, number: int, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.nodes[number].run(self.words(number, *args), check=check)

    def agent(self, number: int, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        options = [f"--manifests={self.manifests}", f"--node-name=node-{number}", f"--cluster-cidr={CLUSTER}"]
        return self.run(number, "agent", *options, *args, check=check)

    def list_of(self, number: int) -> Path:
        return self.folder / f"host-{number}" / "net.d" / LIST

    def routes(self, number: int) -> set[str]:
        found = [self.nodes[number].ip(family, "route", "show", "proto", str(PROTOCOL)) for family in ("-4", "-6")]
        return {route["dst"] for routes in found for route in routes}

    def sysctl(self, number: int, key: str) -> str:
        return self.nodes[number].run(["sysctl", "-n", key]).stdout.strip()


@pytest.fixture
def pair(make_node: Callable[[], Node], tmp_path: Path, direct_bin_dir: Path) -> Iterator[Pair]:
    nodes = [make_node(), make_node()]
    veth_between(nodes[0], nodes[1])
    pair = Pair(nodes, tmp_path, direct_bin_dir)
    yield pair
    for number in range(2):
        if (tmp_path / f"host-{number}" / "state" / "pods").exists():
            pair.run(number, "del", "--all")


def test_pods_of_two_nodes_reach_each_other_by_their_own_addresses(pair: Pair) -> None:
    for number in range(2):
        pair.agent(number, "--once")
    one, other = (json.loads(pair.run(number, "add", "pod", "-o", "json").stdout)["pods"][0] for number in range(2))

    seen = ["timeout", "60", "tcpdump", "-lnni", "eth0", "-c2", "icmp[0] == 8 or icmp6[0] == 128"]
    with pair.nodes[1].background(["nsenter", f"--net={other['netns']}", "--", *seen]) as capture:
        until(lambda: "listening on" in (capture.stdout.readline() if capture.stdout else ""))
        for address in ("10.244.1.2", "fd00:10:244:1::2"):
            pair.nodes[0].run(["nsenter", f"--net={one['netns']}", "--", "ping", "-c1", "-W10", "-M", "do", address])
        captured = capture.stdout.read() if capture.stdout else ""
    assert "10.244.0.2 > 10.244.1.2" in captured
    assert "fd00:10:244::2 > fd00:10:244:1::2" in captured


def test_the_list_has_the_ranges_and_the_mtu_and_a_second_run_changes_nothing(pair: Pair) -> None:
    said = pair.agent(0, "--once").stderr

    written = json.loads(pair.list_of(0).read_text())
    bridge = written["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/24"}], [{"subnet": "fd00:10:244::/64"}]]
    assert (bridge["mtu"], bridge["ipMasq"]) == (1450, False)
    assert "sysctl net.ipv4.ip_forward 1" in said
    assert [pair.sysctl(0, key) for key in ("net.ipv4.ip_forward", FORWARDING)] == ["1", "1"]
    before = pair.list_of(0).stat()
    again = pair.agent(0, "--once")
    assert (again.stderr, again.stdout) == ("", "")
    assert pair.list_of(0).stat() == before


def test_packets_that_leave_the_cluster_have_the_address_of_the_node(pair: Pair) -> None:
    for number in range(2):
        pair.agent(number, "--once")
    pod = json.loads(pair.run(0, "add", "pod", "-o", "json").stdout)["pods"][0]["netns"]
    with pair.nodes[1].background(["timeout", "60", "tcpdump", "-lnni", "uplink0", "-c1", "icmp[0] == 8"]) as capture:
        until(lambda: "listening on" in (capture.stdout.readline() if capture.stdout else ""))
        pair.nodes[0].run(["nsenter", f"--net={pod}", "--", "ping", "-c1", "-W10", "192.0.2.2"])
        captured = capture.stdout.read() if capture.stdout else ""

    assert "192.0.2.1 > 192.0.2.2" in captured


def test_dry_run_shows_the_differences_and_changes_nothing(pair: Pair) -> None:
    before = pair.nodes[0].state()

    shown = pair.agent(0, "--dry-run", check=False)

    assert shown.returncode == 1
    lines = shown.stdout.splitlines()
    assert "+ route 10.244.1.0/24 via 192.0.2.2" in lines
    assert "~ sysctl net.ipv4.ip_forward 1" in lines
    assert f"+ table inet {TABLE}" in lines
    assert lines[-1] == f"+ file {pair.list_of(0)}"
    pair.nodes[0].assert_same_state(before)
    assert not pair.list_of(0).exists()
    pair.agent(0, "--once")
    assert pair.agent(0, "--dry-run").stdout == ""


def test_down_takes_back_all_that_the_agent_made(pair: Pair) -> None:
    before = pair.nodes[0].state()
    pair.agent(0, "--once", "--backend=vxlan")
    assert pair.nodes[0].ip("link", "show", TUNNEL)

    pair.run(0, "agent", "down")

    pair.nodes[0].assert_same_state(before, ignore=["files/*"])
    assert not pair.list_of(0).exists()
    assert pair.sysctl(0, "net.ipv4.ip_forward") == "0"


def test_down_keeps_changes_of_other_programs(pair: Pair) -> None:
    pair.nodes[0].run(["sysctl", "-qw", f"{FORWARDING}=1"])
    pair.agent(0, "--once")
    pair.list_of(0).write_text("{}")
    pair.nodes[0].run(["ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.2"])

    said = pair.run(0, "agent", "down").stderr

    assert "stays: it was changed" in said
    assert pair.list_of(0).read_text() == "{}"
    assert pair.sysctl(0, FORWARDING) == "1"
    assert "198.51.100.0/24" in {each["dst"] for each in pair.nodes[0].ip("route")}


def test_a_second_agent_refuses_and_sigterm_leaves_everything(pair: Pair) -> None:
    options = [f"--manifests={pair.manifests}", "--node-name=node-0"]
    with pair.nodes[0].background(pair.words(0, "agent", *options)) as running:
        until(lambda: pair.list_of(0).exists())

        second = pair.agent(0, "--once", check=False)
        down = pair.run(0, "agent", "down", check=False)

        assert (second.returncode, down.returncode) == (2, 2)
        assert "another agent works on this node" in second.stderr
        running.terminate()
        assert running.wait(HANG) == 0
    assert pair.list_of(0).exists()
    assert pair.routes(0) == {"10.244.1.0/24", "fd00:10:244:1::/64"}


def test_a_running_agent_follows_manifests_and_tells_each_problem_once(pair: Pair) -> None:
    options = [f"--manifests={pair.manifests}", "--node-name=node-0"]
    with pair.nodes[0].background(pair.words(0, "agent", *options)) as running:
        until(lambda: len(pair.routes(0)) == 2)
        pair.write(1, podCIDRs=["10.244.0.0/25"])
        until(lambda: not pair.routes(0))
        pair.write(1, podCIDRs=["10.244.7.0/24"])
        until(lambda: pair.routes(0) == {"10.244.7.0/24"})
        running.terminate()
        said = running.stdout.read() if running.stdout else ""
    assert said.count("'10.244.0.0/25' overlaps 10.244.0.0/24 of Node node-0") == 2
    assert "No longer: Node node-1" in said


WRONG = {
    "no such Node": (["--node-name=node-9", "--once"], "Node node-9: there is no such Node"),
    "a range that is none": (["--cluster-cidr=10.244.0.1/16"], "'10.244.0.1/16' is no network"),
    "two sources": (["--kubeconfig=/dev/null"], "--manifests excludes --kubeconfig"),
    "no address for metrics": (["--metrics=localhost:http"], "--metrics localhost:http: "),
    "no manifests": (["--manifests=/none"], "--manifests /none: No such file or directory"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_end_with_2_and_change_nothing(pair: Pair, case: str) -> None:
    before = pair.nodes[0].state()
    options, message = WRONG[case]

    ended = pair.agent(0, *options, check=False)

    assert ended.returncode == 2
    assert message in ended.stderr
    pair.nodes[0].assert_same_state(before)


def test_a_node_without_a_range_gets_a_problem_and_no_list(pair: Pair) -> None:
    pair.write(0, taints=[])

    ended = pair.agent(0, "--once", check=False)

    assert ended.returncode == 1
    assert "Node node-0: it has no podCIDR" in ended.stderr
    assert not pair.list_of(0).exists()


def test_routes_of_router_advertisements_are_kept(pair: Pair) -> None:
    node = pair.nodes[0]
    node.run(["sysctl", "-qw", "net.ipv6.conf.uplink0.accept_ra=1"])
    node.run(["ip", "-6", "route", "add", "default", "via", "2001:db8::2", "dev", "uplink0", "proto", "ra"])

    said = pair.agent(0, "--once", check=False).stderr

    assert "IPv6 is not forwarded: uplink0 would lose the routes of its router advertisements" in said
    assert pair.sysctl(0, FORWARDING) == "0"
    said = pair.agent(0, "--once", "--accept-ra").stderr
    assert "sysctl net.ipv6.conf.uplink0.accept_ra 2" in said
    assert [pair.sysctl(0, key) for key in (FORWARDING, "net.ipv6.conf.uplink0.accept_ra")] == ["1", "2"]
    pair.run(0, "agent", "down")
    assert [pair.sysctl(0, key) for key in (FORWARDING, "net.ipv6.conf.uplink0.accept_ra")] == ["0", "1"]


SECOND_DEFAULT = """
ip link add more type veth peer more2
ip link set more up
ip link set more2 up
ip address add 198.51.100.1/24 dev more
ip route add default via 192.0.2.2
ip route add default via 198.51.100.2 metric 9
"""
HINDRANCES = {
    "iptables": ("iptables -P FORWARD DROP", "the chain FORWARD of iptables drops IPv4 packets that none of its rules"),
    "default routes": (SECOND_DEFAULT, "there are default routes for IPv4 by more and uplink0"),
}


@pytest.mark.parametrize("case", HINDRANCES)
def test_hindrances_between_pods_are_named_and_not_changed(pair: Pair, case: str) -> None:
    damage, message = HINDRANCES[case]
    pair.nodes[0].run(["sh", "-ec", damage])
    rules = pair.nodes[0].run(["iptables", "-S", "FORWARD"]).stdout

    said = pair.agent(0, "--once", check=False).stderr

    assert message in said
    assert pair.nodes[0].run(["iptables", "-S", "FORWARD"]).stdout == rules


def test_a_flushed_table_and_a_deleted_list_are_put_back(pair: Pair) -> None:
    pair.agent(0, "--once")
    table = pair.nodes[0].run(["nft", "list", "table", "inet", TABLE]).stdout
    pair.nodes[0].run(["nft", "flush", "table", "inet", TABLE])
    pair.list_of(0).unlink()

    pair.agent(0, "--once")

    assert pair.nodes[0].run(["nft", "list", "table", "inet", TABLE]).stdout == table
    assert pair.list_of(0).exists()


def test_a_list_that_runtimes_take_first_is_named(pair: Pair) -> None:
    pair.list_of(0).parent.mkdir(parents=True)
    (pair.list_of(0).parent / "05-other.conflist").write_text("{}")

    assert f"05-other.conflist, which comes before {LIST}" in pair.agent(0, "--once", check=False).stderr


def test_status_shows_the_ways_of_the_running_agent(pair: Pair) -> None:
    pair.write(2, podCIDRs=["10.244.0.0/26"])
    options = [f"--manifests={pair.manifests}", "--node-name=node-0"]
    with pair.nodes[0].background(pair.words(0, "agent", *options)):
        until(lambda: pair.list_of(0).exists())

        shown = json.loads(pair.run(0, "agent", "status", "-o", "json").stdout)
        table = pair.run(0, "agent", "status")

    [one, _] = shown["peers"]
    assert one == {
        "name": "node-1",
        "routes": [
            {"to": "10.244.1.0/24", "via": "192.0.2.2", "way": "direct"},
            {"to": "fd00:10:244:1::/64", "via": "2001:db8::2", "way": "direct"},
        ],
        "problems": [],
    }
    assert (shown["node"], shown["backend"], shown["mtu"]) == ("node-0", "auto", 1450)
    assert shown["problems"] == ["Node node-2: podCIDR '10.244.0.0/26' overlaps 10.244.0.0/24 of Node node-0"]
    assert shown["changes"] >= 4
    assert shown["lastChange"] <= shown["lastComparison"]
    assert "node-1  10.244.1.0/24       direct  192.0.2.2" in table.stdout
    assert "overlaps" in table.stderr
    gone = pair.run(0, "agent", "status", check=False)
    assert (gone.returncode, gone.stderr) == (2, "Error: `cni-harness agent` does not run on this node\n")


METRIC = re.compile(r'(\w+)(?:\{(\w+="[^"]*")\})? ([0-9.e+]+)')


def test_metrics_are_in_prometheus_format_and_a_client_that_hangs_holds_up_no_other(pair: Pair) -> None:
    options = [f"--manifests={pair.manifests}", "--node-name=node-0", "--metrics=[::1]:9471", "--backend=vxlan"]
    with pair.nodes[0].background(pair.words(0, "agent", *options)):
        until(lambda: pair.list_of(0).exists())
        with open_namespace(pair.nodes[0].path) as namespace, ExitStack() as stack:
            with entered(namespace):
                for _ in range(8):
                    hanging = stack.enter_context(socket.create_connection(("::1", 9471)))
                    hanging.sendall(b"GET /metr")
                client = HTTPConnection("::1", 9471, timeout=HANG)
                stack.callback(client.close)
                client.connect()
            client.request("GET", "/metrics")
            answer = client.getresponse()
            text = answer.read().decode()
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = text.splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP ")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    values = {found.group(1, 2): float(found[3]) for line in lines if (found := METRIC.fullmatch(line))}
    assert helped == typed == list(dict.fromkeys(name for name, _ in values))
    assert len(values) == len(lines) - len(helped) - len(typed)
    assert values["cni_harness_agent_peers", None] == 1
    assert values["cni_harness_agent_routes", 'way="tunnel"'] == 2
    assert values["cni_harness_agent_changes_total", None] >= 6
    assert abs(values["cni_harness_agent_last_comparison_timestamp_seconds", None] - time.time()) < HANG


def test_links_keep_their_own_forwarding_and_redirects_stay_refused_after_down(pair: Pair) -> None:
    node = pair.nodes[0]
    keys = [
        "net.ipv4.conf.uplink0.forwarding",
        "net.ipv4.conf.all.accept_redirects",
        "net.ipv6.conf.uplink0.forwarding",
    ]
    node.run(["sysctl", "-qw", f"{keys[0]}=1", f"{keys[1]}=0", f"{keys[2]}=1"])

    pair.agent(0, "--once")
    pair.run(0, "agent", "down")

    assert [pair.sysctl(0, key) for key in keys] == ["1", "0", "1"]
    assert pair.sysctl(0, "net.ipv4.ip_forward") == "0"


def test_forwarding_that_another_program_turned_on_stays(pair: Pair) -> None:
    node = pair.nodes[0]
    read_only = 'mount --bind -o ro /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys; exec "$@"'
    options = [f"--manifests={pair.manifests}", "--node-name=node-0", "--once"]
    words = ["unshare", "--mount", "sh", "-ec", read_only, "sh", *pair.words(0, "agent", *options)]
    failed = node.run(words, check=False)
    node.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])

    pair.run(0, "agent", "down")

    assert "sysctl net.ipv4.ip_forward 1: Read-only file system" in failed.stderr
    assert failed.returncode == 1
    assert pair.sysctl(0, "net.ipv4.ip_forward") == "1"


def test_a_list_of_another_program_stays_and_is_named(pair: Pair) -> None:
    pair.list_of(0).parent.mkdir(parents=True)
    pair.list_of(0).write_text('{"mine": 1}')

    said = pair.agent(0, "--once", check=False).stderr
    pair.run(0, "agent", "down")

    assert f"{pair.list_of(0)} is not as the agent wrote it, and stays" in said
    assert pair.list_of(0).read_text() == '{"mine": 1}'


def test_half_a_list_of_a_killed_agent_is_removed(pair: Pair) -> None:
    pair.agent(0, "--once")
    half = pair.list_of(0).with_name(f".{LIST}.0123abcd.tmp")
    half.write_text("{")
    record = pair.folder / "host-0" / "state" / "agent" / "changed.json"
    told = json.loads(record.read_text())
    told["files"] = {name: [*digests, "0"] for name, digests in told["files"].items()}
    record.write_text(json.dumps(told))  # as of a kill before the list was written

    pair.agent(0, "--once", "--mtu=1400")

    assert not half.exists()
    assert json.loads(pair.list_of(0).read_text())["plugins"][0]["mtu"] == 1400
    pair.run(0, "agent", "down")
    assert not pair.list_of(0).exists()


def test_down_with_a_damaged_record_names_it_and_removes_routes_and_table(pair: Pair) -> None:
    pair.agent(0, "--once")
    record = pair.folder / "host-0" / "state" / "agent" / "changed.json"
    record.write_text("{")

    ended = pair.run(0, "agent", "down", check=False)

    assert ended.returncode == 2
    assert f"{record} is damaged" in ended.stderr
    assert pair.routes(0) == set()
    assert TABLE not in pair.nodes[0].run(["nft", "list", "tables"]).stdout


@pytest.mark.parametrize("action", ["down", "status"])
def test_other_actions_take_no_dry_run(pair: Pair, action: str) -> None:
    pair.agent(0, "--once")

    ended = pair.run(0, "agent", action, "--dry-run", check=False)

    assert ended.returncode == 2
    assert f"`agent {action}` takes neither --once nor --dry-run" in ended.stderr
    assert len(pair.routes(0)) == 2


def test_an_agent_with_other_files_refuses_a_node_that_has_one(pair: Pair) -> None:
    options = [f"--manifests={pair.manifests}", "--node-name=node-0"]
    with pair.nodes[0].background(pair.words(0, "agent", *options)):
        until(lambda: pair.list_of(0).exists())
        other = pair.words(1, "agent", "down")

        ended = pair.nodes[0].run(other, check=False)

    assert ended.returncode == 2
    assert "another agent works on this node" in ended.stderr
    assert len(pair.routes(0)) == 2


def test_of_two_nodes_with_one_name_the_first_is_followed(pair: Pair) -> None:
    (pair.manifests / "backup.json").write_text((pair.manifests / "node-1.json").read_text())

    said = pair.agent(0, "--once", check=False).stderr

    assert "Node node-1: there is another Node of this name, which is followed" in said
    assert len(pair.routes(0)) == 2


def test_direct_routes_are_made_though_the_kernel_refuses_the_tunnel(pair: Pair) -> None:
    pair.write(2)
    far = json.loads((pair.manifests / "node-2.json").read_text())
    far["status"]["addresses"] = [{"type": "InternalIP", "address": "198.51.100.9"}]
    far["spec"]["podCIDRs"] = ["10.244.2.0/24"]
    (pair.manifests / "node-2.json").write_text(json.dumps(far))

    pair.nodes[0].run(["ip", "link", "set", "uplink0", "mtu", "100"])  # too small for any tunnel

    said = pair.agent(0, "--once", check=False).stderr

    assert "there is no tunnel: " in said
    assert pair.routes(0) == {"10.244.1.0/24"}


def test_pods_without_room_for_ipv6_get_no_list(pair: Pair) -> None:
    for number in range(2):
        pair.nodes[number].run(["ip", "link", "set", "uplink0", "mtu", "1300"])

    said = pair.agent(0, "--once", check=False).stderr

    assert "no network list: IPv6 needs packets of 1280 bytes, and those of pods have 1250" in said
    assert not pair.list_of(0).exists()
