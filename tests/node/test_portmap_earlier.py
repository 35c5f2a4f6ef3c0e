"""portmap's table of an earlier version, without the rules for packets that stay in a bridge."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nodes import Node
from tests.port_mappings import Ports, connects, mapping, refuses

pytestmark = pytest.mark.sudo

TABLE = "inet cni_harness_portmap"
POSTROUTING = [
    "meta nfproto ipv4 ct status dnat ip daddr . iifname @masquerade4 masquerade",
    "meta nfproto ipv4 ct status dnat ip daddr . oifname @masquerade_all4 masquerade",
    "meta nfproto ipv6 ct status dnat ip6 daddr . iifname @masquerade6 masquerade",
    "meta nfproto ipv6 ct status dnat ip6 daddr . oifname @masquerade_all6 masquerade",
    "meta nfproto ipv4 ct status dnat ip saddr 127.0.0.0/8 ip daddr . oifname @masquerade4 masquerade",
]
"""The rules before commit fa199c876718; all else in the table is as now."""
NEW = "meta nfproto ipv4 ct status dnat iif 0 fib saddr type != local ip daddr . oifname @masquerade4 masquerade"


def set_postrouting(node: Node, rules: list[str], table: str = TABLE) -> None:
    lines = [f"flush chain {table} postrouting", *(f"add rule {table} postrouting {rule}" for rule in rules)]
    node.run(["nft", "-f", "-"], stdin="\n".join([*lines, ""]))


def assert_warned(ports: Ports) -> None:
    ran = ports.run("CHECK", "one")

    assert ran.code == 0, ran
    assert "warning: rules of an earlier version: " in ran.stderr
    assert "`cni-harness repair`" in ran.stderr


def repaired(ports: Ports) -> None:
    ports.succeed("REPAIR", "one")


def added(ports: Ports) -> None:
    ports.add("two", mapping(8081, 80))
    ports.succeed("DEL", "two")
    ports.bridge.succeed("DEL", "two", prevResult=ports.results["two"])


@pytest.mark.parametrize("complete", [repaired, added])
def test_check_with_an_earlier_table_warns_until_it_is_complete(
    node: Node, bin_dir: Path, complete: Callable[[Ports], None]
) -> None:
    ports = Ports(node, bin_dir)
    ports.add("one", mapping(8080, 80))
    now = node.filtering()
    set_postrouting(node, POSTROUTING)
    assert node.filtering() != now

    assert_warned(ports)
    assert connects(node.path, "127.0.0.1", 8080, ports.namespace("one"), 80)
    complete(ports)

    ports.succeed("CHECK", "one")
    assert node.filtering() == now


def test_check_with_an_earlier_table_of_a_network_with_conditions_warns(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir, conditionsV4=["iifname", "!=", "other0"])
    ports.add("one", mapping(8080, 80))
    tables = node.run(["nft", "list", "tables"]).stdout.splitlines()
    (table,) = [line.removeprefix("table ") for line in tables if "cni_harness_portmap_" in line]
    set_postrouting(node, POSTROUTING, table)

    assert_warned(ports)
    repaired(ports)

    ports.succeed("CHECK", "one")


@pytest.mark.parametrize(
    "rules",
    [POSTROUTING[1:], [*POSTROUTING[1:], NEW], [*POSTROUTING, NEW]],
    ids=["earlier, one missing", "one missing, one new", "one of two new"],
)
def test_check_fails_if_an_earlier_table_lacks_a_rule(node: Node, direct_bin_dir: Path, rules: list[str]) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    set_postrouting(node, rules)

    assert ports.fail("CHECK", "one")["msg"].startswith("host ports do not lead to the pod: ")


def test_check_fails_for_a_port_that_is_missing_in_an_earlier_table(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    set_postrouting(node, POSTROUTING)
    node.run(["nft", f"flush map {TABLE} ports4"])

    assert "8080/tcp" in ports.fail("CHECK", "one")["msg"]


def test_del_with_an_earlier_table_removes_it(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.attach("one")
    before = node.filtering()
    ports.add("one", mapping(8080, 80))
    set_postrouting(node, POSTROUTING)

    ports.succeed("DEL", "one")

    assert node.filtering() == before
    assert refuses(node.path, "127.0.0.1", 8080)
