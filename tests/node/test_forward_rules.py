"""What certainly stops a forwarded packet, by the rules that nft lists."""

import json
import subprocess
from ipaddress import ip_address
from typing import NamedTuple

import pytest

from harness.views.checks_node import forward_stop
from harness.views.nft_ruleset import Rules

pytestmark = pytest.mark.sudo

BASE = "add table inet t; add chain inet t f {{ type filter hook forward priority 0; policy {policy}; }};"


class Forwarded(NamedTuple):
    """A packet from a pod behind br0, or a reply to it."""

    address: str
    is_reply: bool = False

    def stop(self, listing: str) -> str:
        """Return the rule or policy that stops it, or ""."""
        rules = Rules(json.loads(listing)["nftables"])
        found = forward_stop(rules, ip_address(self.address), "br0", is_reply=self.is_reply)
        return found.rule if found is not None else ""


OUT = Forwarded("10.0.0.2")
BACK = Forwarded("10.0.0.2", is_reply=True)
OUT6 = Forwarded("fd00::2")


def stopped(script: str, packet: Forwarded, policy: str = "accept") -> str:
    """Load rules in a namespace of their own; return the rule or policy that stops a packet, or ""."""
    command = "nft -f - && nft --json list ruleset"
    text = BASE.format(policy=policy) + script
    run = subprocess.run(
        ["unshare", "--net", "sh", "-c", command], input=text, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return packet.stop(run.stdout)


def rule(text: str, chain: str = "f") -> str:
    return f"\nadd rule inet t {chain} {text}"


def chain(name: str) -> str:
    return f"\nadd chain inet t {name}"


@pytest.mark.parametrize(
    ("script", "packet", "policy", "expected"),
    [
        ("", OUT, "accept", ""),
        ("", OUT, "drop", "policy drop"),
        (rule("ip saddr 10.0.0.2 accept"), OUT, "drop", ""),
        (rule("ip saddr 10.0.0.3 accept"), OUT, "drop", "policy drop"),
        (rule("ip saddr 10.0.0.0/8 counter drop"), OUT, "accept", "ip saddr 10.0.0.0/8 drop"),
        (rule("ip saddr != 10.0.0.0/8 drop"), OUT, "accept", ""),
        (rule("ip saddr 10.0.0.1-10.0.0.9 drop"), OUT, "accept", "ip saddr 10.0.0.1-10.0.0.9 drop"),
        (rule("ip saddr { 10.0.0.2, 10.0.0.7 } drop"), OUT, "accept", "ip saddr { 10.0.0.2, 10.0.0.7 } drop"),
        (rule("ip saddr 10.0.0.2 drop"), OUT6, "accept", ""),
        (rule("ip6 saddr fd00::/64 drop"), OUT6, "accept", "ip6 saddr fd00::/64 drop"),
        (rule("meta nfproto ipv6 drop"), OUT, "accept", ""),
        (rule('iifname "br*" drop'), OUT, "accept", 'iifname "br*" drop'),
        (rule('iifname "br1" drop'), OUT, "accept", ""),
        (rule('oifname "eth0" drop'), OUT, "accept", ""),  # unknown: the way out
        (rule('oifname "eth0" accept'), OUT, "drop", ""),
        (rule("tcp dport 80 drop"), OUT, "accept", ""),
        (rule("tcp dport 80 accept"), OUT, "drop", ""),
        (rule("limit rate 1/second accept"), OUT, "drop", ""),
        (rule("ct state new drop"), OUT, "accept", "ct state new drop"),
        (rule("ct state established,related accept"), OUT, "drop", "policy drop"),
        (rule("ct state established,related accept"), BACK, "drop", ""),
        (rule("ip daddr 10.0.0.2 reject"), BACK, "accept", "ip daddr 10.0.0.2 reject type icmp expr port-unreachable"),
        ("\nadd set inet t s { type ipv4_addr; }" + rule("ip saddr @s accept"), OUT, "drop", "policy drop"),
        (
            "\nadd set inet t s { type ipv4_addr; flags interval; elements = { 10.0.0.0/24 }; }"
            + rule("ip saddr @s drop"),
            OUT,
            "accept",
            "ip saddr @s drop",
        ),
        (rule('iifname vmap { "br0" : drop }'), OUT, "accept", "iifname vmap { br0 : drop }"),
        (rule("tcp dport 80 accept"), OUT6, "drop", ""),
        (rule("ip daddr 10.0.0.2 drop"), OUT, "accept", ""),  # unknown: the other end
        (rule("ip daddr 10.0.0.2 accept"), OUT, "drop", ""),
        (rule("ip daddr 10.0.0.2 accept"), OUT6, "drop", "policy drop"),
        (rule("icmp type echo-request drop"), OUT, "accept", ""),
        (rule("meta mark 0 drop"), OUT, "accept", ""),
        (rule("ct status dnat accept"), OUT, "drop", ""),
        (rule("fib daddr type local accept"), OUT, "drop", ""),
        (rule("ct direction reply drop"), BACK, "accept", "ct direction reply drop"),
        (rule("ct original ip daddr 10.0.0.2 drop"), BACK, "accept", ""),
        # A rule that perhaps drops does not hide one that certainly does: Docker has such.
        (chain("c") + rule('oifname "docker0" drop', "c") + rule("jump c"), OUT, "drop", "policy drop"),
        (
            rule("tcp dport 80 accept") + "\nadd chain inet t g { type filter hook forward priority 5; policy drop; }",
            OUT,
            "drop",
            "policy drop",
        ),
        (chain("c") + rule("drop", "c") + rule("jump c"), OUT, "accept", "drop"),
        (chain("c") + rule("drop", "c") + rule("tcp dport 80 jump c"), OUT, "accept", ""),
        (chain("c") + rule("return", "c") + rule("jump c") + rule("accept"), OUT, "drop", ""),
        (chain("c") + rule("goto c") + rule("accept"), OUT, "drop", "policy drop"),
        (chain("c") + rule("accept", "c") + rule("jump c"), OUT, "drop", ""),
    ],
)
def test_first_rule_that_stops_a_packet_is_found(script: str, packet: Forwarded, policy: str, expected: str) -> None:
    found = stopped(script, packet, policy)

    assert found.replace('"', "") == expected.replace('"', "")


def test_rules_of_iptables() -> None:
    script = (
        "iptables-nft -P FORWARD DROP; iptables-nft -A FORWARD -s 10.0.0.2 -m comment --comment x -j ACCEPT;"
        "iptables-nft -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT;"
        "iptables-nft -A FORWARD -s 10.0.0.4 -j REJECT; nft --json list ruleset"
    )
    run = subprocess.run(["unshare", "--net", "sh", "-ec", script], capture_output=True, text=True, check=True)

    assert OUT.stop(run.stdout) == ""
    assert BACK.stop(run.stdout) == ""
    assert Forwarded("10.0.0.3").stop(run.stdout) == ""  # conntrack is an extension: the packet may pass
