"""`path`: its words and exit codes, and single ways held against real packets. For random ones see test_path_random."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
FIREWALL = {"type": "firewall", "backend": "nftables"}


@pytest.fixture
def pair(make_cli: Callable[[Path], Cli], direct_bin_dir: Path) -> Cli:
    """Two pods on a bridge, the first with a host port."""
    cli = make_cli(direct_bin_dir)
    network = bridge_network("net", ipMasq=True)
    network["plugins"][0]["ipam"]["ranges"].append([{"subnet": "fd00:77::/64"}])
    network["plugins"] += [PORTMAP, FIREWALL]
    cli.configure(network)
    cli.add("pod1", "-p", "8080:80")
    cli.add("pod2")
    return cli


def path(cli: Cli, *args: str, code: int = 0) -> dict[str, Any]:
    run = cli.run("path", *args, "-o", "json", check=False)
    assert run.returncode == code, run.stdout + run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def address(cli: Cli, pod: str, ip: str = "10.") -> str:
    (found,) = (
        each for each in cli.json("inspect", pod)["networks"][0]["result"]["ips"] if each["address"].startswith(ip)
    )
    return str(found["address"]).partition("/")[0]


def is_answered(cli: Cli, pod: str, target: str) -> bool:
    return cli.run("exec", pod, "--", "ping", "-c1", "-W1", target, check=False).returncode == 0


def on_node(cli: Cli, *command: str, stdin: str = "") -> None:
    subprocess.run(["ip", "netns", "exec", cli.node, *command], input=stdin, text=True, check=True)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_host_port_leads_to_the_pod_and_names_the_owner_of_the_element(pair: Cli) -> None:
    document = path(pair, "pod2", "10.77.0.1", "--port", "8080/tcp")

    assert (document["verdict"], document["place"], document["port"]) == ("delivered", "pod1", 80)
    assert document["destination"] == address(pair, "pod1")
    (owner,) = {each["owner"] for rule in document["rules"] for each in rule["elements"] if "ports4" in each["name"]}
    container = pair.json("inspect", "pod1")["containerID"]
    assert owner == f"net/{container[:12]}/eth0"


@pytest.mark.mostly_slow(2, "each family; one is in make test")
@pytest.mark.parametrize(("options", "ip"), [((), "10."), (("-6",), "fd00:")])
def test_a_rule_that_drops_is_named_and_pings_get_no_answer(pair: Cli, options: tuple[str, ...], ip: str) -> None:
    gateway = {"10.": "10.77.0.1", "fd00:": "fd00:77::1"}[ip]
    assert path(pair, "pod1", gateway)["place"] == "node"
    assert path(pair, "pod1", "pod2", *options)["destination"] == address(pair, "pod2", ip)
    assert is_answered(pair, "pod1", gateway)
    rules = "icmp type echo-request drop; icmpv6 type echo-request drop"
    on_node(
        pair, "nft", "-f", "-", stdin=f"table inet t {{ chain i {{ type filter hook input priority 0; {rules}; }}; }}"
    )

    document = path(pair, "pod1", gateway, code=1)

    assert (document["verdict"], document["place"]) == ("dropped", "node")
    assert document["reason"].startswith("inet t i: icmp")
    assert not is_answered(pair, "pod1", gateway)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(("value", "verdict"), [("0", "delivered"), ("1", "dropped")])
def test_frames_of_a_bridge_meet_the_rules_of_ip_if_br_netfilter_is_on(pair: Cli, value: str, verdict: str) -> None:
    on_node(pair, "sysctl", "-qw", f"net.bridge.bridge-nf-call-iptables={value}")
    chain = "chain f { type filter hook forward priority 0; ip protocol icmp drop; }"
    on_node(pair, "nft", "-f", "-", stdin=f"table inet t {{ {chain}; }}")

    document = path(pair, "pod1", "pod2", code=0 if verdict == "delivered" else 1)

    assert document["verdict"] == verdict
    assert is_answered(pair, "pod1", address(pair, "pod2")) is (verdict == "delivered")


def test_a_rule_that_cannot_be_read_makes_the_verdict_unsure(pair: Cli) -> None:
    rules = "limit rate over 10/second drop"
    on_node(
        pair, "nft", "-f", "-", stdin=f"table ip t {{ chain i {{ type filter hook input priority 0; {rules}; }}; }}"
    )

    document = path(pair, "pod1", "10.77.0.1", code=2)

    assert document["verdict"] == "unsure"
    assert "limit rate over 10/second" in document["reason"]


def test_an_unreadable_rule_that_decides_nothing_leaves_the_verdict_sure(pair: Cli) -> None:
    on_node(
        pair,
        "iptables-nft",
        "-A",
        "INPUT",
        "-m",
        "statistic",
        "--mode",
        "random",
        "--probability",
        "0.5",
        "-j",
        "ACCEPT",
    )

    assert path(pair, "pod1", "10.77.0.1")["verdict"] == "delivered"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_links_that_are_down_and_the_smallest_mtu_are_named(pair: Cli) -> None:
    _, port = (link["ifname"] for link in pair.ip("link", "show", "master", "net0"))
    on_node(pair, "ip", "link", "set", port, "mtu", "1300")
    document = path(pair, "pod1", "pod2")
    assert (document["mtu"], document["mtuAt"]) == (1300, f"{port} in node")
    on_node(pair, "ip", "link", "set", port, "down")

    document = path(pair, "pod1", "pod2", code=1)

    assert f"{port} in node is down" in document["reason"]
    assert not is_answered(pair, "pod1", address(pair, "pod2"))


def test_a_strict_reverse_path_filter_is_named(pair: Cli) -> None:
    on_node(pair, "sysctl", "-qw", "net.ipv4.conf.net0.rp_filter=1")
    assert path(pair, "pod1", "10.77.0.1")["verdict"] == "delivered"
    on_node(pair, "ip", "link", "add", "other0", "type", "bridge")
    on_node(pair, "ip", "link", "set", "other0", "up")
    on_node(pair, "ip", "route", "add", f"{address(pair, 'pod1')}/32", "dev", "other0")

    document = path(pair, "pod1", "10.77.0.1", code=1)

    assert "reverse path filter of net0" in document["reason"]
    assert not is_answered(pair, "pod1", "10.77.0.1")


def test_the_table_ends_with_the_verdict_and_bad_words_are_refused(pair: Cli) -> None:
    run = pair.run("path", "pod1", "pod2", "--port", "80/tcp")

    assert run.stdout.splitlines()[-1].split()[:3] == ["pod2", "end", "delivered:"]
    assert "Smallest MTU: 1500" in run.stderr
    assert "wanted a port" in pair.run("path", "pod1", "pod2", "--port", "80/xyz", check=False).stderr
    assert "there is no pod default/pod9" in pair.run("path", "pod1", "pod9", check=False).stderr
