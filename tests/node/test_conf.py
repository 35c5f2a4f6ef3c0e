"""Each network list that the project ships serves a pod, by the plugins as a runtime executes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import conf
from tests.nodes import Node, PluginRun, until, veth_between

LISTS = sorted(Path(conf.__file__).parent.glob("*.conflist"))


class Seen(NamedTuple):
    """What there is to see of a network in the pod."""

    links: dict[str, str]
    """Kind of each interface that is up."""
    networks: list[str]
    """Those of the pod's addresses, but for `lo`'s and link-local ones."""
    gateways: list[str]


EXPECTED = {
    "10-cni-harness": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.86.0.2/16", "fd0d:6e1b:8b5c::2/64"],
        ["10.86.0.1", "fd0d:6e1b:8b5c::1"],
    ),
    "20-bridge-ipv4": Seen({"lo": "", "eth0": "veth"}, ["10.89.0.2/24"], ["10.89.0.1"]),
    "30-bridge-l2": Seen({"lo": "", "eth0": "veth"}, [], []),
    "40-ptp": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.90.0.2/24", "fd0d:6e1b:8b5d::2/64"],
        ["10.90.0.1", "fd0d:6e1b:8b5d::1"],
    ),
    "50-macvlan": Seen({"lo": "", "eth0": "macvlan"}, ["10.91.0.2/24", "fd0d:6e1b:8b5e::2/64"], []),
    "62-bandwidth": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.97.0.2/24", "fd0d:6e1b:8b62::2/64"],
        ["10.97.0.1", "fd0d:6e1b:8b62::1"],
    ),
    "63-tuning": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.98.0.2/24", "fd0d:6e1b:8b63::2/64"],
        ["10.98.0.1", "fd0d:6e1b:8b63::1"],
    ),
    "90-hostnetwork-noop": Seen({"lo": ""}, [], []),
    "99-loopback": Seen({"lo": ""}, [], []),
}

# State that a network keeps when its last pod is gone, as with the reference plugins: the bridge, forwarding, and the
# place where to go on reserving.
KEPT = [
    "*/cni-*",
    "*dev cni-*",
    "node/sysctl/*.cni-*",
    "node/sysctl/net.ip*forward*",
    "files/*/networks*",
    "files/*/tuning",
]


Chain = list[dict[str, Any]]
"""The configurations of a list's plugins."""


def requests(network: Path) -> list[Chain]:
    """The configurations of the list's plugins, for each version that a runtime may choose."""
    listed = json.loads(network.read_text())
    versions = listed.get("cniVersions", [listed["cniVersion"]])
    assert listed["cniVersion"] in versions
    return [
        [{**plugin, "name": listed["name"], "cniVersion": version} for plugin in listed["plugins"]]
        for version in versions
    ]


REQUESTS = [
    pytest.param(network.stem, chain, id=f"{network.stem}-{chain[0]['cniVersion']}")
    for network in LISTS
    for chain in requests(network)
]


def look(node: Node, pod: str) -> Seen:
    links = {link["ifname"]: link for link in node.ip("-d", "link", netns=pod)}
    addresses = [address for link in node.ip("address", netns=pod) for address in link["addr_info"]]
    routes = node.ip("-4", "route", netns=pod) + node.ip("-6", "route", netns=pod)
    return Seen(
        {name: link.get("linkinfo", {}).get("info_kind", "") for name, link in links.items() if "UP" in link["flags"]},
        [f"{each['local']}/{each['prefixlen']}" for each in addresses if each["scope"] == "global"],
        [route["gateway"] for route in routes if route["dst"] == "default"],
    )


@pytest.fixture
def call(node: Node, bin_dir: Path) -> Callable[..., PluginRun]:
    def call(verb: str, config: dict[str, Any], pod: str, name: str = "pod") -> PluginRun:
        ifname = "lo" if config["type"] == "loopback" else "eth0"
        if config["type"] == "tuning":
            config = {**config, "dataDir": str(node.var_lib_cni / "tuning")}  # /run is the machine's
        return node.plugin(bin_dir, config["type"], verb, config, container_id=name, ifname=ifname, netns=pod)

    return call


def test_every_list_is_expected_here() -> None:
    assert [network.stem for network in LISTS] == list(EXPECTED)


@pytest.mark.parametrize(("network", "chain"), REQUESTS)
def test_a_list_gives_a_pod_its_network_and_takes_it_back(
    node: Node,
    make_node: Callable[[], Node],
    call: Callable[..., PluginRun],
    network: str,
    chain: Chain,
) -> None:
    first = chain[0]
    pod = node.pod_namespace("pod")
    node.run(["ip", "link", "set", "lo", "up" if first["type"] != "loopback" else "down"], netns=pod)
    if first["type"] == "macvlan":
        veth_between(node, make_node())
        node.run(["ip", "route", "add", "default", "via", "192.0.2.2"])
    before = node.state()

    result: dict[str, Any] = {}
    for config in chain:
        added = call("ADD", {**config, **result}, pod)
        assert added.code == 0, added
        result = {"prevResult": added.stdout}

    assert look(node, pod) == EXPECTED[network]
    for gateway in EXPECTED[network].gateways:
        node.run(["ping", "-c1", "-W2", gateway], netns=pod)
    if first["cniVersion"] >= "0.4.0":
        for config in chain:
            assert call("CHECK", {**config, **result}, pod).code == 0

    for config in reversed(chain):
        assert call("DEL", {**config, **result}, pod) == (0, None, "")
    assert look(node, pod) == Seen({} if network == "99-loopback" else {"lo": ""}, [], [])
    node.assert_same_state(before, ignore=KEPT)


def test_pods_of_the_layer_2_list_reach_each_other_with_addresses_of_their_own(
    node: Node, call: Callable[..., PluginRun]
) -> None:
    [[config]] = requests(next(path for path in LISTS if path.stem == "30-bridge-l2"))
    pods = [node.pod_namespace(name) for name in ("a", "b")]
    for number, pod in enumerate(pods, start=1):
        assert call("ADD", config, pod, f"pod{number}").code == 0
        node.run(["ip", "address", "add", f"192.0.2.{number}/24", "dev", "eth0"], netns=pod)

    until(lambda: node.run(["ping", "-c1", "-W1", "192.0.2.2"], netns=pods[0], check=False).returncode == 0)
