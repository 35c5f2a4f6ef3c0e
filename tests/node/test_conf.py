"""Each network list that the project ships serves a pod, by the plugins as a runtime executes them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import conf
from tests.dhcp_servers import dnsmasq, running_daemon
from tests.kernel import has_link_kind, lacking
from tests.nodes import HANG, Node, PluginRun, until, veth_between

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
    "51-ipvlan": Seen({"lo": "", "eth0": "ipvlan"}, ["10.92.0.2/24", "fd0d:6e1b:8b5f::2/64"], []),
    "52-vlan": Seen({"lo": "", "eth0": "vlan"}, ["10.93.0.2/24", "fd0d:6e1b:8b60::2/64"], []),
    "53-tap": Seen({"lo": "", "eth0": "tun"}, ["10.94.0.2/24", "fd0d:6e1b:8b61::2/64"], []),
    "54-host-device": Seen({"lo": "", "eth0": "veth"}, ["10.95.0.2/24", "fd0d:6e1b:8b62::2/64"], []),
    "55-dummy": Seen({"lo": "", "eth0": "dummy"}, ["10.96.0.2/24", "fd0d:6e1b:8b63::2/64"], []),
    "56-dhcp": Seen({"lo": "", "eth0": "macvlan"}, ["192.0.2.50/24"], ["192.0.2.2"]),
    "57-static": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.97.0.9/24", "fd0d:6e1b:8b64::9/64"],
        ["10.97.0.1", "fd0d:6e1b:8b64::1"],
    ),
    "60-portmap": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.100.0.2/24", "fd0d:6e1b:8b65::2/64"],
        ["10.100.0.1", "fd0d:6e1b:8b65::1"],
    ),
    "61-firewall": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.101.0.2/24", "fd0d:6e1b:8b66::2/64"],
        ["10.101.0.1", "fd0d:6e1b:8b66::1"],
    ),
    "62-bandwidth": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.102.0.2/24", "fd0d:6e1b:8b67::2/64"],
        ["10.102.0.1", "fd0d:6e1b:8b67::1"],
    ),
    "63-tuning": Seen(
        {"lo": "", "eth0": "veth"},
        ["10.103.0.2/24", "fd0d:6e1b:8b68::2/64"],
        ["10.103.0.1", "fd0d:6e1b:8b68::1"],
    ),
    # Their default routes are in tables of their own.
    "64-sbr": Seen({"lo": "", "eth0": "veth"}, ["10.104.0.2/24", "fd0d:6e1b:8b69::2/64"], []),
    "65-vrf": Seen({"lo": "", "eth0": "veth", "blue": "vrf"}, ["10.105.0.2/24", "fd0d:6e1b:8b6a::2/64"], []),
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
    "files/*dhcp*",
    "files/*/tuning",
]


# The options to make an interface by ip(8), for plugins whose kind not every kernel has.
KINDS = {"dummy": ["dummy"], "ipvlan": ["ipvlan"], "vlan": ["vlan", "id", "7"], "vrf": ["vrf", "table", "7"]}

# Values of capabilities, as a runtime has them for a pod.
CAPABILITIES: dict[str, Any] = {
    "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
}


def requests(network: Path) -> list[list[dict[str, Any]]]:
    """The configurations of the list's plugins in order, for each version that a runtime may choose."""
    listed = json.loads(network.read_text())
    versions = listed.get("cniVersions", [listed["cniVersion"]])
    assert listed["cniVersion"] in versions
    return [
        [
            {**plugin, "name": listed["name"], "cniVersion": version, **runtime_config(plugin)}
            for plugin in listed["plugins"]
        ]
        for version in versions
    ]


def runtime_config(plugin: dict[str, Any]) -> dict[str, Any]:
    asked = {key: CAPABILITIES[key] for key in plugin.get("capabilities", {}) if key in CAPABILITIES}
    return {"runtimeConfig": asked} if asked else {}


REQUESTS = [
    pytest.param(network.stem, request, id=f"{network.stem}-{request[0]['cniVersion']}")
    for network in LISTS
    for request in requests(network)
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


class Pod:
    """A pod that the plugins of a list are executed for, as libcni does."""

    def __init__(self, node: Node, bin_dir: Path, name: str) -> None:
        self.netns = node.pod_namespace(name)
        self._node = node
        self._bin_dir = bin_dir
        self._name = name

    def add(self, plugins: list[dict[str, Any]]) -> dict[str, Any] | None:
        """ADD in order, each with the result of the one before; return the last."""
        result = None
        for plugin in plugins:
            added = self._run("ADD", plugin, result)
            assert added.code == 0, added
            result = added.stdout
        return result

    def check(self, plugins: list[dict[str, Any]], result: dict[str, Any] | None) -> None:
        """CHECK in order."""
        for plugin in plugins:
            assert self._run("CHECK", plugin, result) == (0, None, "")

    def delete(self, plugins: list[dict[str, Any]], result: dict[str, Any] | None) -> None:
        """DEL, the last plugin first."""
        for plugin in reversed(plugins):
            assert self._run("DEL", plugin, result) == (0, None, "")

    def _run(self, verb: str, plugin: dict[str, Any], result: dict[str, Any] | None) -> PluginRun:
        ifname = "lo" if plugin["type"] == "loopback" else "eth0"
        config = plugin if result is None else {**plugin, "prevResult": result}
        if config["type"] == "tuning":
            config = {**config, "dataDir": str(self._node.var_lib_cni / "tuning")}  # /run is the machine's
        return self._node.plugin(
            self._bin_dir, plugin["type"], verb, config, container_id=self._name, ifname=ifname, netns=self.netns
        )


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_every_list_is_expected_here() -> None:
    assert [network.stem for network in LISTS] == sorted(EXPECTED)


@pytest.mark.parametrize(("network", "plugins"), REQUESTS)
def test_a_list_gives_a_pod_its_network_and_takes_it_back(
    node: Node,
    make_node: Callable[[], Node],
    bin_dir: Path,
    network: str,
    plugins: list[dict[str, Any]],
    direct_bin_dir: Path,
    exits: ExitStack,
) -> None:
    for plugin in plugins:
        kind = KINDS.get(plugin["type"])
        if kind and not has_link_kind(node, *kind):
            lacking(kind[0])
    pod = Pod(node, bin_dir, "pod")
    node.run(["ip", "link", "set", "lo", "up" if network != "99-loopback" else "down"], netns=pod.netns)
    first = plugins[0]
    if first["type"] in {"macvlan", "ipvlan", "host-device"}:
        veth_between(node, neighbour := make_node())
        node.run(["ip", "route", "add", "default", "via", "192.0.2.2"])
        if first["ipam"]["type"] == "dhcp":
            exits.enter_context(dnsmasq(neighbour, last="192.0.2.50"))
            daemon = exits.enter_context(running_daemon(node, direct_bin_dir))
            plugins = [{**first, "ipam": first["ipam"] | daemon.ipam()}]
    if first["type"] == "vlan":
        node.run(["ip", "link", "add", "eth0", "up", "type", "bridge"])
    before = node.state()

    result = pod.add(plugins)

    assert look(node, pod.netns) == EXPECTED[network]
    for gateway in EXPECTED[network].gateways:
        node.run(["ping", "-c1", "-W2", gateway], netns=pod.netns)
    if plugins[0]["cniVersion"] >= "0.4.0":
        pod.check(plugins, result)

    pod.delete(plugins, result)
    assert look(node, pod.netns) == Seen({} if network == "99-loopback" else {"lo": ""}, [], [])
    node.assert_same_state(before, ignore=KEPT, within=HANG)


def test_pods_of_the_layer_2_list_reach_each_other_with_addresses_of_their_own(node: Node, bin_dir: Path) -> None:
    [plugins] = requests(next(path for path in LISTS if path.stem == "30-bridge-l2"))
    pods = [Pod(node, bin_dir, name) for name in ("a", "b")]
    for number, pod in enumerate(pods, start=1):
        pod.add(plugins)
        node.run(["ip", "address", "add", f"192.0.2.{number}/24", "dev", "eth0"], netns=pod.netns)

    until(lambda: node.run(["ping", "-c1", "-W1", "192.0.2.2"], netns=pods[0].netns, check=False).returncode == 0)
