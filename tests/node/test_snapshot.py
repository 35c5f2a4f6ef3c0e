"""Each kind of thing, made, changed and taken away by other tools: the difference is that, and nothing else."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

from harness.snapshot import Snapshot, differences, take
from tests.nodes import Node

MAC = "02:00:00:00:00"
BRIDGE = f"ip link add br0 address {MAC}:01 type bridge"
UP = f"{BRIDGE}; ip link set br0 up"
ADDRESSED = f"{UP}; ip address add 10.1.0.1/24 dev br0; ip address add fd00:1::1/64 dev br0 nodad"
VETH = f"ip link add veth0 address {MAC}:02 type veth peer name veth1 address {MAC}:03; ip link set veth1 up"
PORT = f"{UP}; {VETH}; ip link set veth0 master br0 up"
TABLE = "nft add table inet t"
CHAIN = f"{TABLE}; nft 'add chain inet t c {{ type filter hook input priority 0; }}'"
SET = f"{TABLE}; nft 'add set inet t s {{ type ipv4_addr; }}'"
MAP = f"{TABLE}; nft 'add map inet t m {{ type ipv4_addr : verdict; }}'"
CONF, NEIGH = "/proc/sys/net/ipv4/conf", "/proc/sys/net/ipv4/neigh"
CONF6 = "/proc/sys/net/ipv6/conf"

# The state before, then steps: a command, and the lines of its difference. "*" stands for what versions of tools
# say in several ways.
CASES: dict[str, tuple[str, list[tuple[str, list[str]]]]] = {
    "link": (
        "",
        [
            (BRIDGE, [f"+ node: link br0 (bridge, down, mtu 1500, mac {MAC}:01)"]),
            ("ip link set br0 up", ["~ node: link br0: flags none -> UP"]),
            ("ip link set br0 mtu 1400", ["~ node: link br0: mtu 1500 -> 1400"]),
            ("ip link set br0 promisc on", ["~ node: link br0: flags UP -> UP + PROMISC"]),
            (f"ip link set br0 address {MAC}:09", [f"~ node: link br0: mac {MAC}:01 -> {MAC}:09"]),
            ("ip link set br0 alias uplink", ["~ node: link br0: alias none -> uplink"]),
            ("ip link property add dev br0 altname other", ["~ node: link br0: other names none -> other"]),
            ("ip link set br0 group 7", ["~ node: link br0: group default -> 7"]),
            ("ip link set br0 type bridge stp_state 1", ["~ node: link br0: settings.stp_state 0 -> 1"]),
            (
                "ip link delete br0",
                [
                    (
                        f"- node: link br0 (bridge, up, mtu 1400, promisc, mac {MAC}:09, alias uplink, "
                        "other names other, group 7, stp_state 1)"
                    ),
                ],
            ),
        ],
    ),
    "port": (
        f"{UP}; {VETH}",
        [
            ("ip link set veth0 master br0", ["~ node: link veth0: port of none -> br0"]),
            ("bridge link set dev veth0 hairpin on", ["~ node: link veth0: as port.hairpin no -> yes"]),
            ("bridge link set dev veth0 isolated on", ["~ node: link veth0: as port.isolated no -> yes"]),
            ("ip link set veth0 nomaster", ["~ node: link veth0: port of br0 -> none"]),
        ],
    ),
    "veth": (
        "",
        [
            (
                VETH,
                [
                    f"+ node: link veth0 (veth, down, mtu 1500, peer veth1, mac {MAC}:02)",
                    f"+ node: link veth1 (veth, up, mtu 1500, peer veth0, mac {MAC}:03)",
                ],
            ),
        ],
    ),
    "address": (
        UP,
        [
            (
                "ip address add 10.1.0.1/24 dev br0",
                [
                    "+ node: address 10.1.0.1/24 dev br0",
                    "+ node: route 10.1.0.0/24 dev br0 (protocol kernel, scope link, prefsrc 10.1.0.1)",
                ],
            ),
            (
                "ip address change 10.1.0.1/24 dev br0 valid_lft 900 preferred_lft 900",
                ["~ node: address 10.1.0.1/24 dev br0: dynamic none -> yes"],
            ),
            (
                "ip address delete 10.1.0.1/24 dev br0",
                [
                    "- node: address 10.1.0.1/24 dev br0 (dynamic)",
                    "- node: route 10.1.0.0/24 dev br0 (protocol kernel, scope link, prefsrc 10.1.0.1)",
                ],
            ),
            (
                "ip address add 10.1.0.1 peer 10.1.0.2 dev br0 noprefixroute",
                ["+ node: address 10.1.0.1 peer 10.1.0.2/32 dev br0 (noprefixroute)"],
            ),
        ],
    ),
    "address of IPv6": (
        UP,
        [
            ("ip address add fd00:1::1/64 dev br0", ["+ node: address fd00:1::1/64 dev br0"]),
            ("ip address add fe80::1/64 dev br0 nodad", ["+ node: address fe80::1/64 dev br0 (scope link, nodad)"]),
            ("ip address delete fd00:1::1/64 dev br0", ["- node: address fd00:1::1/64 dev br0"]),
        ],
    ),
    "route": (
        ADDRESSED,
        [
            ("ip route add default via 10.1.0.9", ["+ node: route default via 10.1.0.9 dev br0"]),
            (
                "ip route change default via 10.1.0.9 mtu 1400",
                ["~ node: route default via 10.1.0.9 dev br0: mtu none -> 1400"],
            ),
            (
                "ip route replace default via 10.1.0.8",
                [
                    "+ node: route default via 10.1.0.8 dev br0",
                    "- node: route default via 10.1.0.9 dev br0 (mtu 1400)",
                ],
            ),
            (
                "ip route add 192.0.2.0/24 via 10.1.0.9 table 100 metric 5 proto static",
                ["+ node: route 192.0.2.0/24 via 10.1.0.9 dev br0 table 100 metric 5 (protocol static)"],
            ),
            ("ip route add blackhole 198.51.100.0/24", ["+ node: route blackhole 198.51.100.0/24"]),
            ("ip -6 route add default via fd00:1::9", ["+ node: route default via fd00:1::9 dev br0"]),
            ("ip -6 route add default dev br0 metric 7", ["+ node: route ::/0 dev br0 metric 7"]),
            ("ip -6 route delete default via fd00:1::9", ["- node: route default via fd00:1::9 dev br0"]),
            (
                "ip route delete 192.0.2.0/24 table 100",
                ["- node: route 192.0.2.0/24 via 10.1.0.9 dev br0 table 100 metric 5 (protocol static)"],
            ),
        ],
    ),
    "route over two gateways": (
        ADDRESSED,
        [
            (
                "ip route add 192.0.2.0/24 nexthop via 10.1.0.8 nexthop via 10.1.0.9 weight 2",
                ["+ node: route 192.0.2.0/24 nexthop via 10.1.0.8 dev br0 nexthop via 10.1.0.9 dev br0 weight 2"],
            ),
        ],
    ),
    "rule": (
        "",
        [
            (
                "ip rule add from 10.1.0.2 lookup 100 priority 500",
                ["+ node: rule inet 500: from 10.1.0.2 lookup 100"],
            ),
            (
                "ip -6 rule add fwmark 1 iif lo lookup 100 priority 600",
                ["+ node: rule inet6 600: from all fwmark 0x1 iif lo lookup 100"],
            ),
            ("ip rule delete priority 500", ["- node: rule inet 500: from 10.1.0.2 lookup 100"]),
        ],
    ),
    "neighbour": (
        f"{PORT}; ip address add 10.1.0.1/24 dev br0",
        [
            (
                f"ip neighbour add 10.1.0.8 lladdr {MAC}:08 dev br0",
                [f"+ node: neighbour 10.1.0.8 dev br0 (lladdr {MAC}:08, state permanent)"],
            ),
            (
                f"ip neighbour replace 10.1.0.8 lladdr {MAC}:07 dev br0",
                [f"~ node: neighbour 10.1.0.8 dev br0: lladdr {MAC}:08 -> {MAC}:07"],
            ),
            (
                f"ip neighbour add 10.1.0.9 lladdr {MAC}:09 dev br0 nud noarp",
                [f"+ node: neighbour 10.1.0.9 dev br0 (lladdr {MAC}:09, state noarp)"],
            ),
            (f"ip neighbour add 10.1.0.10 lladdr {MAC}:0a dev br0 nud reachable", []),
            ("ip neighbour add proxy 10.1.0.11 dev br0", ["+ node: neighbour proxy 10.1.0.11 dev br0"]),
            ("ip neighbour add proxy fd00:1::b dev br0", ["+ node: neighbour proxy fd00:1::b dev br0"]),
            (
                "ip neighbour delete 10.1.0.8 dev br0",
                [f"- node: neighbour 10.1.0.8 dev br0 (lladdr {MAC}:07, state permanent)"],
            ),
        ],
    ),
    "fdb entry": (
        PORT,
        [
            (
                f"bridge fdb add {MAC}:10 dev veth0 master static",
                [f"+ node: fdb entry {MAC}:10 ifname veth0 master br0 (state static)"],
            ),
            (
                f"bridge fdb delete {MAC}:10 dev veth0 master",
                [f"- node: fdb entry {MAC}:10 ifname veth0 master br0 (state static)"],
            ),
        ],
    ),
    "qdisc": (
        PORT,
        [
            (
                "tc qdisc add dev veth0 root tbf rate 1mbit burst 32kbit latency 400ms",
                ["+ node: qdisc tbf dev veth0 root (rate 125000,*)"],
            ),
            (
                "tc qdisc change dev veth0 root tbf rate 2mbit burst 32kbit latency 400ms",
                ["~ node: qdisc tbf dev veth0 root: rate 125000 -> 250000*"],
            ),
            ("tc qdisc delete dev veth0 root", ["- node: qdisc tbf dev veth0 root (rate 250000,*)"]),
            ("tc qdisc add dev veth0 clsact", ["+ node: qdisc clsact dev veth0 parent ingress"]),
        ],
    ),
    "qdisc of the only link": (
        "",
        [
            (
                "tc qdisc add dev lo root tbf rate 1mbit burst 32kbit latency 400ms",
                ["+ node: qdisc tbf dev lo root (rate 125000,*)"],
            ),
            ("tc qdisc delete dev lo root", ["- node: qdisc tbf dev lo root (rate 125000,*)"]),
        ],
    ),
    "class and filter": (
        f"{PORT}; tc qdisc add dev veth0 root handle 1: htb default 10",
        [
            (
                "tc class add dev veth0 parent 1: classid 1:10 htb rate 1mbit",
                ["+ node: class htb 1:10 root *rate 1Mbit * dev veth0"],
            ),
            (
                "tc filter add dev veth0 parent 1: pref 7 protocol ip u32 match ip dst 10.1.0.2/32 flowid 1:10",
                ["+ node: filter dev veth0 parent 1: pref 7 protocol ip u32 #0 (*flowid 1:10*a010002*)"],
            ),
            (
                "tc filter delete dev veth0 parent 1: pref 7",
                ["- node: filter dev veth0 parent 1: pref 7 protocol ip u32 #0 (*)"],
            ),
            (
                "tc class change dev veth0 classid 1:10 htb rate 2mbit",
                [
                    "- node: class htb 1:10 root *rate 1Mbit * dev veth0",
                    "+ node: class htb 1:10 root *rate 2Mbit * dev veth0",
                ],
            ),
        ],
    ),
    "nft table and chain": (
        "",
        [
            (TABLE, ["+ node: nft table inet t"]),
            ("nft add chain inet t plain", ["+ node: nft chain inet t plain"]),
            (
                "nft 'add chain inet t c { type filter hook input priority 0; }'",
                ["+ node: nft chain inet t c (type filter, hook input, prio 0, policy accept)"],
            ),
            (
                "nft 'chain inet t c { policy drop; }'",
                ["~ node: nft chain inet t c: policy accept -> drop"],
            ),
            ("nft delete chain inet t plain", ["- node: nft chain inet t plain"]),
        ],
    ),
    "nft rule": (
        CHAIN,
        [
            (
                "nft add rule inet t c ip saddr 10.1.0.0/24 tcp dport 22 counter accept",
                ["+ node: nft rule inet t c: ip saddr 10.1.0.0/24 tcp dport 22 accept"],
            ),
            (
                """nft insert rule inet t c iifname "br0" drop comment '"pod1"'""",
                ['+ node: nft rule inet t c: iifname br0 drop comment "pod1"'],
            ),
            (
                """nft insert rule inet t c iifname "br0" drop comment '"pod1"'""",
                ['+ node: nft rule inet t c: iifname br0 drop comment "pod1"'],
            ),
            (
                "nft flush chain inet t c",
                [
                    '- node: nft rule inet t c: iifname br0 drop comment "pod1"',
                    '- node: nft rule inet t c: iifname br0 drop comment "pod1"',
                    "- node: nft rule inet t c: ip saddr 10.1.0.0/24 tcp dport 22 accept",
                ],
            ),
        ],
    ),
    "order of nft rules": (
        f"{CHAIN}; nft add rule inet t c tcp dport 22 accept; nft add rule inet t c tcp dport 23 accept",
        [
            (
                (
                    "nft flush chain inet t c; nft add rule inet t c tcp dport 23 accept; "
                    "nft add rule inet t c tcp dport 22 accept; nft add rule inet t c udp dport 53 accept"
                ),
                [
                    (
                        "~ node: nft rule inet t c: order: tcp dport 22 accept + tcp dport 23 accept -> "
                        "tcp dport 23 accept + tcp dport 22 accept"
                    ),
                    "+ node: nft rule inet t c: udp dport 53 accept",
                ],
            ),
        ],
    ),
    "nft set, map and object": (
        f"{SET}; {MAP}",
        [
            (
                "nft add element inet t s '{ 10.1.0.2, 10.1.0.3 }'",
                ["+ node: nft element inet t s { 10.1.0.2 }", "+ node: nft element inet t s { 10.1.0.3 }"],
            ),
            ("nft delete element inet t s '{ 10.1.0.2 }'", ["- node: nft element inet t s { 10.1.0.2 }"]),
            (
                """nft add element inet t m '{ 10.1.0.2 comment "pod1" : accept }'""",
                ["+ node: nft element inet t m { 10.1.0.2 } (comment pod1, to accept)"],
            ),
            (
                "nft 'delete element inet t m { 10.1.0.2 }; add element inet t m { 10.1.0.2 : drop }'",
                ["~ node: nft element inet t m { 10.1.0.2 }: comment pod1 -> none, to accept -> drop"],
            ),
            ("nft 'add counter inet t passed'", ["+ node: nft object counter inet t passed"]),
            (
                "nft delete set inet t s",
                ["- node: nft set inet t s (kind set, type ipv4_addr)", "- node: nft element inet t s { 10.1.0.3 }"],
            ),
        ],
    ),
    "nft elements that go by themselves": (
        f"{TABLE}; nft 'add set inet t s {{ type ipv4_addr; flags timeout; }}'",
        [
            ("nft add element inet t s '{ 10.1.0.2 timeout 1h }'", []),
            ("nft add element inet t s '{ 10.1.0.3 }'", ["+ node: nft element inet t s { 10.1.0.3 }"]),
        ],
    ),
    "iptables": (
        "",
        [
            (
                "iptables-nft -t nat -A POSTROUTING -s 10.1.0.0/24 -m comment --comment pod1 -j MASQUERADE",
                [
                    "+ node: nft table ip nat",
                    "+ node: nft chain ip nat POSTROUTING (type nat, hook postrouting, prio 100, policy accept)",
                    "+ node: iptables rule ip nat POSTROUTING: -s 10.1.0.0/24 -m comment --comment pod1 -j MASQUERADE",
                ],
            ),
            (
                "iptables-nft -t nat -D POSTROUTING -s 10.1.0.0/24 -m comment --comment pod1 -j MASQUERADE",
                ["- node: iptables rule ip nat POSTROUTING: -s 10.1.0.0/24 -m comment --comment pod1 -j MASQUERADE"],
            ),
            ("iptables-nft -t nat -N CNI-1", ["+ node: nft chain ip nat CNI-1"]),
            (
                "ip6tables-nft -A FORWARD -i br0 -m statistic --mode nth --every 2 --packet 0 -j ACCEPT",
                [
                    "+ node: nft table ip6 filter",
                    "+ node: nft chain ip6 filter FORWARD (type filter, hook forward, prio 0, policy accept)",
                    (
                        "+ node: iptables rule ip6 filter FORWARD: -i br0 -m statistic --mode nth --every 2 --packet 0 "
                        "-j ACCEPT"
                    ),
                ],
            ),
        ],
    ),
    "sysctl": (
        UP,
        [
            ("echo 1 > /proc/sys/net/ipv4/ip_forward", ["~ node: sysctl net.ipv4.ip_forward: 0 -> 1"]),
            (f"echo 1 > {CONF6}/all/forwarding", ["~ node: sysctl net.ipv6.conf.all.forwarding: 0 -> 1"]),
            (f"echo 1 > {CONF}/all/route_localnet", ["~ node: sysctl net.ipv4.conf.all.route_localnet: 0 -> 1"]),
            (f"echo 2 > {CONF}/br0/rp_filter", ["~ node: sysctl net.ipv4.conf.br0.rp_filter: * -> 2"]),
            (f"echo 1 > {CONF}/default/arp_notify", ["~ node: sysctl net.ipv4.conf.default.arp_notify: 0 -> 1"]),
            (f"echo 0 > {CONF}/br0/arp_notify", ["~ node: sysctl net.ipv4.conf.br0.arp_notify: 1 -> 0"]),
            (f"echo 0 > {CONF}/default/arp_notify", ["~ node: sysctl net.ipv4.conf.default.arp_notify: 1 -> 0"]),
            (
                f"echo 1 > {CONF6}/all/disable_ipv6",
                ["- node: address ::1/128*", "~ node: sysctl *all.disable_ipv6: 0 -> 1"],
            ),
            (
                f"echo 5000 > {NEIGH}/br0/base_reachable_time_ms",
                ["~ node: sysctl net.ipv4.neigh.br0.base_reachable_time_ms: 30000 -> 5000"],
            ),
            (
                "echo 1024 2048 > /proc/sys/net/ipv4/ip_local_port_range",
                ["~ node: sysctl net.ipv4.ip_local_port_range: 32768 60999 -> 1024 2048"],
            ),
            ("echo 100 > /proc/sys/net/core/somaxconn", ["~ node: sysctl net.core.somaxconn: * -> 100"]),
        ],
    ),
    "sysctl of a link that comes and goes": (
        "",
        [
            (
                f"{BRIDGE}; echo 1 > {CONF}/br0/arp_notify",
                ["+ node: link br0 *", "+ node: sysctl net.ipv4.conf.br0.arp_notify = 1"],
            ),
            ("ip link delete br0", ["- node: link br0 *", "- node: sysctl net.ipv4.conf.br0.arp_notify = 1"]),
            (
                f"ip link add br.100 address {MAC}:01 type bridge; echo 1 > {CONF}/br.100/arp_notify",
                ["+ node: link br.100 *", "+ node: sysctl net.ipv4.conf.br/100.arp_notify = 1"],
            ),
        ],
    ),
}


def state(node: Node, **pods: str) -> Snapshot:
    return take({"node": node.path, **pods})


def lines(before: Snapshot, after: Snapshot) -> list[str]:
    return [difference.in_words() for difference in differences(before, after)]


def assert_lines(expected: Sequence[str], found: Sequence[str]) -> None:
    assert len(expected) == len(found), found
    matched = [any(fnmatchcase(line, pattern) for line in found) for pattern in expected]

    assert all(matched), found


@pytest.mark.mostly_slow(3, "each kind of change; a part is in make test")
@pytest.mark.parametrize(("before", "steps"), CASES.values(), ids=CASES.keys())
def test_diff_has_exactly_the_change(node: Node, before: str, steps: list[tuple[str, list[str]]]) -> None:
    node.run(["sh", "-ec", before])
    was = state(node)
    for command, expected in steps:
        node.run(["sh", "-ec", command])
        now = state(node)

        assert_lines(expected, lines(was, now))
        assert lines(now, state(node)) == []
        was = now


def test_a_long_parameter_is_read_to_its_end(node: Node) -> None:
    ports = ",".join(str(port) for port in range(1, 1500, 2))
    node.run(["sh", "-ec", f"echo {ports} >/proc/sys/net/ipv4/ip_local_reserved_ports"])

    assert state(node).section("node", "sysctls")["net.ipv4.ip_local_reserved_ports"] == ports
