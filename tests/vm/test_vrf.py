"""The vrf plugin, on a kernel with VRFs: interfaces of a pod whose networks have nothing to do with each other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.chains import Chain
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_link_kind, lacking
from tests.node.faults import INJECTED, FaultAt, answer_lost_at, dispatched, failing_at, steps_of
from tests.nodes import Node, until, until_usable

ROUTES = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "198.51.100.0/24"}, {"dst": "2001:db8:9::/48"}]


@pytest.fixture
def vrf_node(node: Node) -> Node:
    """A node whose kernel has VRFs."""
    if not has_link_kind(node, "vrf", "table", "7"):
        lacking("VRFs (CONFIG_NET_VRF)")
    return node


@pytest.fixture
def make_chain(vrf_node: Node, served_bin_dir: Path) -> Callable[..., Chain]:
    """Makes a list of an interface plugin and vrf at each call; both networks have the same addresses."""

    def make(
        number: int = 0, type: str = "bridge", *, bins: Path = served_bin_dir, version: str = "1.1.0", **keys: Any
    ) -> Chain:
        ranges = [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]
        ipam = {"type": "host-local", "ranges": ranges, "routes": ROUTES}
        interface = {"type": type, "ipam": ipam} | (
            {"bridge": f"br{number}", "isGateway": True} if type == "bridge" else {}
        )
        vrf = {"type": "vrf", "vrfname": f"red{number}"} | keys
        return Chain(vrf_node, bins, f"net{number}", version, [interface, vrf])

    return make


@pytest.fixture
def chain(make_chain: Callable[..., Chain]) -> Chain:
    return make_chain()


def vrfs(chain: Chain, pod: str = "one") -> dict[str, int]:
    found = chain.node.ip("-d", "link", "show", "type", "vrf", netns=chain.namespace(pod))
    return {link["ifname"]: link["linkinfo"]["info_data"]["table"] for link in found}


def master(chain: Chain, ifname: str = "eth0", pod: str = "one") -> str | None:
    [link] = chain.node.ip("link", "show", "dev", ifname, netns=chain.namespace(pod))
    found: str | None = link.get("master")
    return found


def addresses(chain: Chain, ifname: str = "eth0") -> set[str]:
    [link] = chain.node.ip("address", "show", "dev", ifname, netns=chain.namespace("one"))
    return {each["local"] for each in link["addr_info"] if each["scope"] == "global"}


def routes(chain: Chain, *place: str) -> set[tuple[str, str]]:
    """Destination and gateway of the unicast routes of a place, without link-local and multicast ones."""
    netns = chain.namespace("one")
    found = [route for family in ("-4", "-6") for route in chain.node.ip(family, "route", "show", *place, netns=netns)]
    return {
        (route["dst"], route.get("gateway", ""))
        for route in found
        if route.get("type", "unicast") == "unicast" and not route["dst"].startswith(("fe80:", "ff00:"))
    }


BEFORE = {
    ("default", "10.88.0.1"),
    ("10.88.0.0/24", ""),
    ("198.51.100.0/24", "10.88.0.1"),
    ("default", "fd00:88::1"),
    ("fd00:88::/64", ""),
    ("2001:db8:9::/48", "fd00:88::1"),
}


def ping(chain: Chain, vrf: str, gateway: str) -> bool:
    command = ["ping", "-c1", "-W2", "-I", vrf, gateway]
    return chain.node.run(command, netns=chain.namespace("one"), check=False).returncode == 0


def everything(chain: Chain) -> list[object]:
    """All that a failing ADD could leave in the pod."""
    names = [link["ifname"] for link in chain.node.ip("link", netns=chain.namespace("one"))]
    return [names, master(chain), addresses(chain), routes(chain), routes(chain, "table", "all")]


def test_the_interface_keeps_its_addresses_and_routes_in_the_vrf(chain: Chain) -> None:
    result = chain.add("one")

    assert (vrfs(chain), master(chain)) == ({"red0": 1}, "red0")
    assert [each["name"] for each in result["interfaces"]][2:] == ["eth0", "red0"]
    assert result["interfaces"][-1]["sandbox"] == chain.namespace("one")
    assert addresses(chain) == {"10.88.0.2", "fd00:88::2"}
    assert routes(chain) == set()
    assert routes(chain, "vrf", "red0") == BEFORE
    until_usable(chain.node, "br0")
    for gateway in ("10.88.0.1", "fd00:88::1"):
        assert ping(chain, "red0", gateway), gateway
    chain.check("one", result)

    assert chain.last("DEL", "one", result).code == 0
    assert (vrfs(chain), master(chain)) == ({}, None)
    assert addresses(chain) == {"10.88.0.2", "fd00:88::2"}
    assert routes(chain) == BEFORE
    chain.delete("one", result)


def test_two_networks_with_the_same_addresses(make_chain: Callable[..., Chain]) -> None:
    first, second = make_chain(0), make_chain(1)
    results = [first.add("one"), second.add("one", ifname="net1", new=False)]

    assert vrfs(first) == {"red0": 1, "red1": 2}
    assert addresses(first, "eth0") == addresses(first, "net1") == {"10.88.0.2", "fd00:88::2"}
    assert routes(first, "vrf", "red0") == routes(first, "vrf", "red1") == BEFORE
    for bridge in ("br0", "br1"):
        until_usable(first.node, bridge)
    # The node has the same gateway on both bridges: which pings arrive where is counted on the pod's side.
    for vrf in ("red0", "red1"):
        assert ping(first, vrf, "10.88.0.2"), vrf
    first.check("one", results[0])
    second.check("one", results[1], ifname="net1")

    second.delete("one", results[1], ifname="net1")
    assert vrfs(first) == {"red0": 1}
    first.check("one", results[0])


def test_two_interfaces_in_one_vrf(make_chain: Callable[..., Chain]) -> None:
    first, second = make_chain(0, vrfname="red", table=7), make_chain(1, vrfname="red")
    results = [first.add("one"), second.add("one", ifname="net1", new=False)]
    assert (vrfs(first), master(first, "eth0"), master(first, "net1")) == ({"red": 7}, "red", "red")
    assert [result["interfaces"][-1]["name"] for result in results] == ["red", "net1"]  # made by the first one

    first.delete("one", results[0])
    assert (vrfs(first), master(first, "net1")) == ({"red": 7}, "red")
    second.delete("one", results[1], ifname="net1")
    assert vrfs(first) == {}


def test_routes_of_a_layer_3_pair(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(type="ptp")

    result = chain.add("one")

    direct = {("10.88.0.1", ""), ("fd00:88::1", "")}
    by_the_gateway = {("10.88.0.0/24", "10.88.0.1"), ("fd00:88::/64", "fd00:88::1")}
    assert (
        routes(chain, "vrf", "red0") == BEFORE - {("10.88.0.0/24", ""), ("fd00:88::/64", "")} | direct | by_the_gateway
    )
    for gateway in ("10.88.0.1", "fd00:88::1"):
        until(lambda gateway=gateway: ping(chain, "red0", gateway))  # type: ignore[misc]
    chain.check("one", result)
    chain.delete("one", result)


def test_addresses_that_the_kernel_flushes(chain: Chain) -> None:
    """Those of an interface without `keep_addr_on_down`, such as the reference's bridge makes."""
    chain.plugins, vrf = chain.plugins[:1], chain.plugins[1]
    result = chain.add("one")
    chain.node.run(["sysctl", "-qw", "net.ipv6.conf.eth0.keep_addr_on_down=0"], netns=chain.namespace("one"))

    assert chain.run("ADD", vrf, "one", result).code == 0

    assert addresses(chain) == {"10.88.0.2", "fd00:88::2"}
    assert routes(chain, "vrf", "red0") == BEFORE


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip link set eth0 nomaster", '"eth0" is not in the VRF "red0"'),
        ("ip link del red0", 'VRF "red0" is missing in the container'),
        ("ip link set red0 down", 'VRF "red0" in the container is down'),
        ("ip route del default vrf red0", "route to 0.0.0.0/0 is missing in the container"),
        ("ip -6 route del 2001:db8:9::/48 vrf red0", "route to 2001:db8:9::/48 is missing in the container"),
        ("ip address del fd00:88::2/64 dev eth0", 'address fd00:88::2/64 is missing on "eth0" in the container'),
        ("ip link del eth0", 'interface "eth0" is missing in the container'),
    ],
)
def test_check_tells_damage(chain: Chain, damage: str, told: str) -> None:
    result = chain.add("one")
    chain.node.run(damage.split(), netns=chain.namespace("one"))

    ran = chain.last("CHECK", "one", result)

    assert (ran.code, ran.stdout["code"], ran.stdout["msg"]) == (1, 999, told)


@pytest.mark.parametrize("way", ["with the result", "without", "again", "interface gone"])
def test_del(chain: Chain, way: str) -> None:
    result = chain.add("one")
    if way == "interface gone":
        chain.node.run(["ip", "link", "del", "eth0"], netns=chain.namespace("one"))

    for _ in range(2 if way == "again" else 1):
        ran = chain.last("DEL", "one", None if way == "without" else result)
        assert (ran.code, ran.stdout, ran.stderr) == (0, None, "")

    assert vrfs(chain) == {}


def test_del_without_namespace_succeeds(chain: Chain) -> None:
    result = chain.add("one")
    remove_namespace(chain.namespace("one"))

    chain.delete("one", result)
    chain.delete("one", None, netns="")


def test_conflicting_tables_and_links_are_refused(chain: Chain) -> None:
    chain.plugins, vrf = chain.plugins[:1], chain.plugins[1]
    result = chain.add("one")
    netns = chain.namespace("one")
    for command in (
        "link add red1 type vrf table 9",
        "link add red2 type bridge",
        "link add dummy0 type dummy",
        "link set dummy0 master red2",
    ):
        chain.node.run(["ip", *command.split()], netns=netns)
    before = everything(chain)

    def error(ifname: str = "eth0", **keys: Any) -> tuple[int, str]:
        ran = chain.run("ADD", vrf | keys, "one", result, ifname=ifname)
        return ran.stdout["code"], ran.stdout["msg"]

    assert error(vrfname="red1", table=8) == (7, 'table: expected 9, the table of the VRF "red1", got 8')
    assert error(vrfname="red2") == (7, 'vrfname: "red2" in the container is no VRF but "bridge"')
    assert error("dummy0") == (999, '"dummy0" is in the bridge "red2" already')
    assert error("eth9") == (999, 'interface "eth9" is missing in the container')
    assert everything(chain) == before


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_a_failing_add_leaves_nothing(
    make_chain: Callable[..., Chain], direct_bin_dir: Path, fault_at: FaultAt, apart: int
) -> None:
    chain = make_chain(bins=direct_bin_dir)
    chain.plugins, vrf = chain.plugins[:1], chain.plugins[1]
    result = chain.add("one")
    before = everything(chain)
    request = chain.request(vrf, result) | {"ipam": {}}
    steps = steps_of(fault_at, apart)
    while True:
        step = next(steps)
        with fault_at(step) as seen:
            outcome = dispatched(chain.node, direct_bin_dir, "ADD", request, "one")
        if outcome.code == 0:
            break

        assert INJECTED.encode() in outcome.stdout, outcome
        assert b"undoing" not in outcome.stderr, outcome
        # The kernel writes its own routes again a moment after the interface came up.
        until(lambda: everything(chain) == before)
    assert 12 <= len(seen) < step


# Mixed use with the reference plugin (Debian's)


@pytest.mark.parametrize("ours_first", [True, False])
def test_either_one_checks_and_deletes_the_others_pod(make_chain: Callable[..., Chain], *, ours_first: bool) -> None:
    if not (REFERENCE_BIN_DIR / "vrf").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    own, theirs = make_chain(version="1.0.0"), make_chain(bins=REFERENCE_BIN_DIR, version="1.0.0")
    added, other = (own, theirs) if ours_first else (theirs, own)

    result = added.add("one")

    assert vrfs(own) == {"red0": 1}
    ran = other.last("CHECK", "one", result)
    if ours_first:
        assert ran.code == 0, ran
    else:  # Debian's 1.1.1 loses the routes
        assert ran.stdout["msg"] == "route to 0.0.0.0/0 is missing in the container"
    assert other.last("DEL", "one", result).code == 0
    assert vrfs(own) == {}
