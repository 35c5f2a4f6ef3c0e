"""The sbr plugin: each interface of a pod answers on the one that it was asked on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.chains import Chain
from tests.cli import REFERENCE_BIN_DIR
from tests.node.faults import INJECTED, FaultAt, answer_lost_at, dispatched, failing_at
from tests.nodes import Node, until_usable, veth_between


def bridge(number: int = 0, **keys: Any) -> dict[str, Any]:
    ranges = [[{"subnet": f"10.{88 + number}.0.0/24"}], [{"subnet": f"fd00:{88 + number}::/64"}]]
    routes = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "198.51.100.0/24"}]
    ipam = {"type": "host-local", "ranges": ranges, "routes": routes}
    return {"type": "bridge", "bridge": f"br{number}", "isGateway": True, "ipam": ipam} | keys


@pytest.fixture
def make_chain(node: Node, served_bin_dir: Path) -> Callable[..., Chain]:
    """Makes a list of bridge and sbr at each call, on a bridge of its own."""

    def make(number: int = 0, *, bins: Path = served_bin_dir, version: str = "1.1.0", **keys: Any) -> Chain:
        return Chain(node, bins, f"net{number}", version, [bridge(number), {"type": "sbr", **keys}])

    return make


@pytest.fixture
def chain(make_chain: Callable[..., Chain]) -> Chain:
    return make_chain()


def rules(chain: Chain, pod: str = "one") -> dict[str, str]:
    """The tables of the pod's rules by the address that they ask for."""
    netns = chain.namespace(pod)
    found = [*chain.node.ip("-4", "rule", netns=netns), *chain.node.ip("-6", "rule", netns=netns)]
    return {rule["src"]: rule["table"] for rule in found if rule["src"] != "all"}


def routes(chain: Chain, table: str, pod: str = "one") -> set[tuple[str, str, str]]:
    """Destination, gateway and source of the routes of one table, without link-local ones."""
    netns = chain.namespace(pod)
    found = []
    for family in ("-4", "-6"):
        listed = chain.node.run(["ip", "-j", family, "route", "show", "table", table], netns=netns, check=False)
        if listed.returncode == 0:
            found += chain.node.ip(family, "route", "show", "table", table, netns=netns)
    return {
        (route["dst"], route.get("gateway", ""), route.get("prefsrc", ""))
        for route in found
        if not route["dst"].startswith("fe80:")
    }


def everything(chain: Chain, pod: str = "one") -> str:
    """All rules, routes and addresses of a pod."""
    until_usable(chain.node, "eth0", chain.namespace(pod))
    script = "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all | sort; ip -o address"
    return chain.node.run(["sh", "-c", script], netns=chain.namespace(pod)).stdout


def ours(number: int = 0) -> list[set[tuple[str, str, str]]]:
    """The routes of the tables of both families."""
    v4, v6 = f"10.{88 + number}.0", f"fd00:{88 + number}:"
    return [
        {("default", f"{v4}.1", ""), (f"{v4}.0/24", "", f"{v4}.2"), ("198.51.100.0/24", f"{v4}.1", "")},
        {("default", f"{v6}:1", ""), (f"{v6}:/64", "", "")},
    ]


def test_each_address_gets_a_table_and_a_rule(chain: Chain) -> None:
    result = chain.add("one")

    assert rules(chain) == {"10.88.0.2": "100", "fd00:88::2": "101"}
    assert [routes(chain, "100"), routes(chain, "101")] == ours()
    assert routes(chain, "main") == set()
    assert [ip["address"] for ip in result["ips"]] == ["10.88.0.2/24", "fd00:88::2/64"]
    chain.check("one", result)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_each_interface_answers_its_own_requests(
    make_chain: Callable[..., Chain], node: Node, make_node: Callable[[], Node]
) -> None:
    first, second = make_chain(0), make_chain(1)
    outside = make_node()
    wire = veth_between(node, outside)
    for number in (0, 1):
        outside.run(["ip", "route", "add", f"10.{88 + number}.0.0/24", "via", wire.ipv4[0]])
        outside.run(["ip", "route", "add", f"fd00:{88 + number}::/64", "via", wire.ipv6[0]])
    strict = [
        f"iifname br{number} {family} saddr {source} drop"
        for number in (0, 1)
        for family, source in (("ip", f"10.{89 - number}.0.0/24"), ("ip6", f"fd00:{89 - number}::/64"))
    ]
    chain_of_rules = "\n".join(["type filter hook prerouting priority -300;", *strict])
    node.run(["nft", "-f", "-"], stdin=f"table inet strict {{\nchain c {{\n{chain_of_rules}\n}}\n}}")

    results = [first.add("one"), second.add("one", ifname="net1", new=False)]

    assert rules(first) == {"10.88.0.2": "100", "fd00:88::2": "101", "10.89.0.2": "102", "fd00:89::2": "103"}
    assert [routes(first, table) for table in ("100", "101", "102", "103")] == [*ours(0), *ours(1)]
    for ifname, netns in (
        ("br0", None),
        ("br1", None),
        ("eth0", first.namespace("one")),
        ("net1", first.namespace("one")),
    ):
        until_usable(node, ifname, netns)
    for address in rules(first):
        assert outside.run(["ping", "-c1", "-W2", address], check=False).returncode == 0, address
    first.check("one", results[0])
    second.check("one", results[1], ifname="net1")
    second.delete("one", results[1], ifname="net1")
    assert rules(first) == {"10.88.0.2": "100", "fd00:88::2": "101"}
    first.check("one", results[0])


def test_sbr_works_without_the_server(make_chain: Callable[..., Chain], direct_bin_dir: Path) -> None:
    chain = make_chain(bins=direct_bin_dir)

    result = chain.add("one")
    chain.check("one", result)
    chain.delete("one", result)

    assert rules(chain) == {}


def test_a_table_that_is_in_use_is_not_taken(chain: Chain) -> None:
    netns = chain.node.pod_namespace("one")
    chain.node.run(["ip", "rule", "add", "from", "192.0.2.1", "table", "100"], netns=netns)
    chain.node.run(["ip", "link", "set", "lo", "up"], netns=netns)
    chain.node.run(["ip", "-6", "route", "add", "2001:db8::/64", "dev", "lo", "table", "102"], netns=netns)

    chain.add("one", new=False)

    assert rules(chain) == {"192.0.2.1": "100", "10.88.0.2": "101", "fd00:88::2": "103"}


def test_source_hints(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(addSourceHints=True)
    result = chain.add("one")

    assert routes(chain, "main") == {("10.88.0.0/24", "", "10.88.0.2"), ("fd00:88::/64", "", "fd00:88::2")}
    assert [routes(chain, "100"), routes(chain, "101")] == ours()
    assert chain.node.run(["ping", "-c1", "-W2", "10.88.0.1"], netns=chain.namespace("one")).returncode == 0
    chain.check("one", result)
    chain.node.run(["ip", "route", "del", "10.88.0.0/24", "table", "main"], netns=chain.namespace("one"))
    told = chain.last("CHECK", "one", result).stdout["msg"]
    assert told == "route to 10.88.0.0/24 from 10.88.0.2 is missing in the container's main table"


def test_with_a_table_there_are_only_rules(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(table=4711)
    chain.node.pod_namespace("one")
    chain.plugins[0]["ipam"]["routes"].append({"dst": "203.0.113.0/24", "table": 4711})

    result = chain.add("one", new=False)

    assert rules(chain) == {"10.88.0.2": "4711", "fd00:88::2": "4711"}
    assert routes(chain, "4711") == {("203.0.113.0/24", "10.88.0.1", "")}
    assert routes(chain, "main") == ours()[0] | ours()[1]
    chain.check("one", result)
    chain.node.run(["ip", "rule", "del", "from", "10.88.0.2"], netns=chain.namespace("one"))
    told = chain.last("CHECK", "one", result).stdout["msg"]
    assert told == "rule from 10.88.0.2 to table 4711 is missing in the container"
    chain.delete("one", result)
    assert rules(chain) == {}


def test_gateways(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(gateways=["10.88.0.9", "fd00:88::9"])

    result = chain.add("one")

    defaults = {route for table in ("100", "101") for route in routes(chain, table) if route[0] == "default"}
    assert defaults == {("default", "10.88.0.9", ""), ("default", "fd00:88::9", "")}
    chain.check("one", result)


def test_routes_of_a_layer_3_pair(node: Node, bin_dir: Path) -> None:
    ptp = {key: value for key, value in bridge().items() if key == "ipam"} | {"type": "ptp"}
    chain = Chain(node, bin_dir, "net", "1.1.0", [ptp, {"type": "sbr"}])

    result = chain.add("one")

    assert routes(chain, "100") == {
        ("10.88.0.1", "", ""),
        ("10.88.0.0/24", "10.88.0.1", ""),
        ("default", "10.88.0.1", ""),
        ("198.51.100.0/24", "10.88.0.1", ""),
    }
    until_usable(node, "eth0", netns=chain.namespace("one"))
    for source, gateway in (("10.88.0.2", "10.88.0.1"), ("fd00:88::2", "fd00:88::1")):
        node.run(["ping", "-c1", "-W2", "-I", source, gateway], netns=chain.namespace("one"))
    chain.check("one", result)
    chain.delete("one", result)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip rule del from 10.88.0.2", "rule from 10.88.0.2 to a table is missing in the container"),
        ("ip -6 rule del from fd00:88::2", "rule from fd00:88::2 to a table is missing in the container"),
        (
            "ip route del default table 100",
            "route to 0.0.0.0/0 via 10.88.0.1 is missing in table 100 of the container",
        ),
        ("ip route del 10.88.0.0/24 table 100", "route to 10.88.0.0/24 is missing in table 100 of the container"),
        ("ip route del 198.51.100.0/24 table 100", "route to 198.51.100.0/24 is missing in table 100 of the container"),
        (
            "ip -6 route flush table 101",
            "route to ::/0 via fd00:88::1 is missing in table 101 of the container",
        ),
        ("ip link del eth0", 'interface "eth0" is missing in the container'),
    ],
)
def test_check_tells_damage(chain: Chain, damage: str, told: str) -> None:
    result = chain.add("one")
    chain.node.run(damage.split(), netns=chain.namespace("one"))

    ran = chain.last("CHECK", "one", result)

    assert (ran.code, ran.stdout["code"], ran.stdout["msg"]) == (1, 999, told)


@pytest.mark.parametrize("way", ["with the result", "without", "again", "interface gone"])
def test_del_deletes_the_rules(chain: Chain, way: str) -> None:
    netns = chain.node.pod_namespace("one")
    chain.node.run(["ip", "rule", "add", "from", "192.0.2.1", "table", "77"], netns=netns)
    result = chain.add("one", new=False)
    if way == "interface gone":
        chain.node.run(["ip", "link", "del", "eth0"], netns=netns)

    for _ in range(2 if way == "again" else 1):
        ran = chain.last("DEL", "one", None if way == "without" else result)
        assert (ran.code, ran.stdout, ran.stderr) == (0, None, "")

    assert rules(chain) == {"192.0.2.1": "77"}


def test_del_without_namespace_succeeds(chain: Chain) -> None:
    result = chain.add("one")
    remove_namespace(chain.namespace("one"))

    chain.delete("one", result)
    chain.delete("one", None, netns="")


def test_del_with_the_namespace_of_another_pod_keeps_that_pod(chain: Chain) -> None:
    result = chain.add("one")
    chain.add("two")

    ran = chain.run("DEL", chain.plugins[-1], "one", result, netns=chain.namespace("two"))

    assert ran.code == 0, ran
    assert rules(chain, "two") == {"10.88.0.3": "100", "fd00:88::3": "101"}


def test_a_second_add_fails_and_changes_nothing(chain: Chain) -> None:
    result = chain.add("one")
    before = everything(chain)

    ran = chain.last("ADD", "one", result)

    assert ran.stdout["msg"] == "there is a rule from 10.88.0.2 to table 100 already"
    assert everything(chain) == before


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"table": "x"}, 'table: expected the number of a routing table from 1 to 4294967295, got "x"'),
        ({"table": 0}, "table: expected the number of a routing table from 1 to 4294967295, got 0"),
        ({"gateways": ["x"]}, 'gateways[0]: expected an IP address, got "x"'),
        (
            {"gateways": ["192.0.2.1", "192.0.2.2"]},
            'gateways: expected at most one address of each family, got ["192.0.2.1", "192.0.2.2"]',
        ),
        ({"addSourceHints": 1}, "addSourceHints: expected true or false, got 1"),
    ],
)
def test_add_refuses_bad_values_and_del_ignores_them(chain: Chain, keys: dict[str, Any], told: str) -> None:
    result = chain.add("one")
    chain.last("DEL", "one", result)
    before = everything(chain)

    ran = chain.last("ADD", "one", result, **keys)

    assert (ran.stdout["code"], ran.stdout["msg"]) == (7, told)
    assert everything(chain) == before
    assert chain.last("STATUS", "one", None, **keys).stdout["code"] == 7
    assert chain.last("DEL", "one", result, **keys).code == 0


def test_missing_prev_result_is_an_error(chain: Chain) -> None:
    chain.node.pod_namespace("one")

    error = chain.last("ADD", "one", None).stdout
    assert (error["code"], error["msg"].split(":")[0]) == (7, "prevResult")
    error = chain.last("ADD", "one", {"cniVersion": "1.1.0"}).stdout
    assert (error["code"], error["msg"]) == (7, 'prevResult.ips: "eth0" has no address')


@pytest.mark.parametrize("verb", ["GC", "STATUS", "REPAIR"])
def test_verbs_without_anything_to_do(chain: Chain, verb: str) -> None:
    result = chain.add("one")
    before = everything(chain)

    ran = chain.last(verb, "one", result, **{"cni.dev/valid-attachments": []})

    assert (ran.code, ran.stdout, ran.stderr) == (0, None, "")
    assert everything(chain) == before


@pytest.mark.mostly_slow(3, "each fault; a part is in make test")
@pytest.mark.parametrize("keys", [{}, {"addSourceHints": True}, {"table": 100}], ids=["tables", "hints", "rules"])
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_a_failing_add_leaves_nothing(
    make_chain: Callable[..., Chain], direct_bin_dir: Path, fault_at: FaultAt, keys: dict[str, Any]
) -> None:
    chain = make_chain(bins=direct_bin_dir, **keys)
    result = chain.add("one")
    chain.delete("one", result)
    chain.plugins, sbr = chain.plugins[:1], chain.plugins[1]
    result = chain.add("one", new=False)
    before = everything(chain)
    request = chain.request(sbr, result) | {"ipam": {}}
    step = 0
    while True:
        step += 1
        with fault_at(step) as seen:
            outcome = dispatched(chain.node, direct_bin_dir, "ADD", request, "one")
        if outcome.code == 0:
            break

        assert INJECTED.encode() in outcome.stdout, outcome
        assert b"undoing" not in outcome.stderr, outcome
        assert everything(chain) == before, step
    assert len(seen) < step
    assert step > (5 if "table" in keys else 12)


# Mixed use with the reference plugin (Debian's)


@pytest.mark.parametrize("ours_first", [True, False])
def test_either_one_deletes_the_others_rules(make_chain: Callable[..., Chain], *, ours_first: bool) -> None:
    if not (REFERENCE_BIN_DIR / "sbr").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    own, theirs = make_chain(version="1.0.0"), make_chain(bins=REFERENCE_BIN_DIR, version="1.0.0")
    added, other = (own, theirs) if ours_first else (theirs, own)

    result = added.add("one")

    assert rules(own) == {"10.88.0.2": "100", "fd00:88::2": "101"}
    # The reference also copies IPv6 routes to the table of an IPv4 address.
    assert all(routes(own, table) >= expected for table, expected in zip(("100", "101"), ours(), strict=True))
    assert routes(own, "main") == set()
    if not ours_first:
        own.check("one", result)
    ran = other.last("DEL", "one", result)
    assert ran.code == 0, ran
    assert rules(own) == {}
