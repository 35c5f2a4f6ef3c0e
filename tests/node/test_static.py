"""The static IPAM plugin: addresses that the configuration or the runtime names, beside the reference's answers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node, PluginRun

ADDRESSES = [
    {"address": "10.88.0.5/24", "gateway": "10.88.0.1"},
    {"address": "fd00:88::5/64", "gateway": "fd00:88::1"},
]
IPAM = {
    "type": "static",
    "addresses": ADDRESSES,
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "198.51.100.0/24", "gw": "10.88.0.9"}],
    "dns": {"nameservers": ["192.0.2.53"], "domain": "a.example", "search": ["b.example"], "options": ["ndots:2"]},
}


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.0.0", "name": "net", "type": "static", "ipam": IPAM} | keys


def run(node: Node, bins: Path, verb: str, given: Mapping[str, Any], args: str = "") -> PluginRun:
    netns = f"{node.path}-one"
    return node.plugin(bins, "static", verb, given, container_id="id-one", ifname="eth0", netns=netns, args=args)


def pairs(result: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(ip["address"], ip.get("gateway")) for ip in result["ips"]]


CONFIGURED: list[tuple[str, str | None]] = [(each["address"], each["gateway"]) for each in ADDRESSES]


CASES: list[tuple[dict[str, Any], str, list[tuple[str, str | None]]]] = [
    ({}, "", CONFIGURED),
    ({}, "IgnoreUnknown=1;K8S_POD_NAME=x", CONFIGURED),
    # CNI_ARGS come besides the configuration's, and GATEWAY belongs to them.
    (
        {},
        "IP=10.99.0.7/24, 2001:db8::7/64;GATEWAY=10.99.0.1,2001:db8::1,10.88.0.7",
        [*CONFIGURED, ("10.99.0.7/24", "10.99.0.1"), ("2001:db8::7/64", "2001:db8::1")],
    ),
    ({"ipam": {"type": "static"}}, "IP=10.99.0.7/24", [("10.99.0.7/24", None)]),
    # `args` replaces all of them, and the runtime's capability replaces `args`.
    ({"args": {"cni": {"ips": ["10.99.0.8/24"]}}}, "IP=10.99.0.7/24", [("10.99.0.8/24", None)]),
    (
        {"args": {"cni": {"ips": ["10.99.0.8/24"]}}, "runtimeConfig": {"ips": ["10.99.0.9/24", "2001:db8::9/64"]}},
        "IP=10.99.0.7/24",
        [("10.99.0.9/24", None), ("2001:db8::9/64", None)],
    ),
    ({"args": {"cni": {"ips": []}}, "runtimeConfig": {"ips": None}}, "", CONFIGURED),
]


@pytest.mark.parametrize("suite", ["ours", "the reference's"])
@pytest.mark.parametrize(("keys", "args", "expected"), CASES)
def test_addresses_follow_the_precedence_of_the_reference(
    node: Node, bin_dir: Path, suite: str, keys: dict[str, Any], args: str, expected: list[tuple[str, str | None]]
) -> None:
    bins = bin_dir if suite == "ours" else REFERENCE_BIN_DIR
    if not (bins / "static").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {bins}")

    ran = run(node, bins, "ADD", config(**keys), args)

    assert ran.code == 0, ran
    assert pairs(ran.stdout) == expected
    section = keys.get("ipam", IPAM)
    assert ran.stdout.get("dns", {}) == section.get("dns", {})
    assert ran.stdout.get("routes", []) == section.get("routes", [])


@pytest.mark.parametrize(
    ("keys", "args", "told"),
    [
        (
            {"ipam": {"type": "static", "addresses": [{"address": "10.88.0.5"}]}},
            "",
            (7, 'ipam.addresses[0].address: expected a CIDR, got "10.88.0.5"'),
        ),
        (
            {"ipam": {"type": "static", "addresses": [{"gateway": "10.88.0.1"}]}},
            "",
            (7, "ipam.addresses[0].address: required key is missing"),
        ),
        (
            {"ipam": {"type": "static", "addresses": [{"address": "10.88.0.5/24", "gateway": "x"}]}},
            "",
            (7, 'ipam.addresses[0].gateway: expected an IP address, got "x"'),
        ),
        ({"runtimeConfig": {"ips": ["10.99.0.9"]}}, "", (7, 'runtimeConfig.ips[0]: expected a CIDR, got "10.99.0.9"')),
        ({"args": {"cni": {"ips": ["x"]}}}, "", (7, 'args.cni.ips[0]: expected a CIDR, got "x"')),
        ({}, "IP=10.99.0.7", (4, 'CNI_ARGS: IP: expected a CIDR, got "10.99.0.7"')),
        ({}, "IP=10.99.0.7/24;GATEWAY=x", (4, 'CNI_ARGS: GATEWAY: expected an IP address, got "x"')),
        (
            {"cniVersion": "0.2.0"},
            "IP=10.99.0.7/24",
            (7, 'cniVersion: "0.2.0" allows one address a family, there are 3 addresses'),
        ),
    ],
)
def test_add_refuses_wrong_values_and_del_ignores_them(
    node: Node, served_bin_dir: Path, keys: dict[str, Any], args: str, told: tuple[int, str]
) -> None:
    ran = run(node, served_bin_dir, "ADD", config(**keys), args)

    assert (ran.stdout["code"], ran.stdout["msg"]) == told
    assert run(node, served_bin_dir, "DEL", config(**keys), args).code == 0
    if not args and "runtimeConfig" not in keys:
        status = run(node, served_bin_dir, "STATUS", config(**keys) | {"cniVersion": "1.1.0"})
        assert (status.stdout["code"], status.stdout["msg"]) == told


@pytest.mark.parametrize("ipam", [{"type": "static"}, None])
def test_no_address_at_all(node: Node, served_bin_dir: Path, ipam: dict[str, Any] | None) -> None:
    """The runtime may name addresses pod by pod, so STATUS has nothing to say."""
    empty = config(ipam=ipam, cniVersion="1.1.0")

    error = run(node, served_bin_dir, "ADD", empty).stdout
    assert (error["code"], error["msg"].split(":")[0]) == (7, "ipam.addresses")
    assert run(node, served_bin_dir, "STATUS", empty).code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (None, ""),
        ({"address": "10.88.0.6/24", "gateway": "10.88.0.1"}, "address 10.88.0.5/24 of eth0 is missing in prevResult"),
        (
            {"address": "10.88.0.5/24", "gateway": "10.88.0.2"},
            "gateway of 10.88.0.5/24 is 10.88.0.2 in prevResult, the configuration says 10.88.0.1",
        ),
    ],
)
def test_check(node: Node, served_bin_dir: Path, change: dict[str, str] | None, told: str) -> None:
    result = run(node, served_bin_dir, "ADD", config()).stdout
    if change:
        result["ips"][0] = change

    ran = run(node, served_bin_dir, "CHECK", config(prevResult=result))

    assert (ran.stdout or {"msg": ""})["msg"] == told
    assert run(node, served_bin_dir, "CHECK", config()).stdout["msg"] == "prevResult: required key is missing"


@pytest.mark.parametrize("verb", ["DEL", "GC", "STATUS", "REPAIR"])
def test_no_state_is_kept(node: Node, served_bin_dir: Path, verb: str) -> None:
    before = node.state()
    run(node, served_bin_dir, "ADD", config())

    ran = run(node, served_bin_dir, verb, config(**{"cniVersion": "1.1.0", "cni.dev/valid-attachments": []}))

    assert (ran.code, ran.stdout, ran.stderr) == (0, None, "")
    node.assert_same_state(before)


@pytest.fixture
def network(node: Node, served_bin_dir: Path) -> Network:
    bridge = {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": IPAM}
    return Network(node, served_bin_dir, {"cniVersion": "1.1.0", "name": "net"} | bridge)


def test_a_pod_of_a_bridge(network: Network) -> None:
    result = network.add("one")
    other = network.add("two", args="IP=10.88.0.77/24;GATEWAY=10.88.0.1", ipam={"type": "static"})

    assert network.addresses("one") == ["10.88.0.5", "fd00:88::5"]
    assert (network.addresses("two"), other["ips"][0]["gateway"]) == (["10.88.0.77"], "10.88.0.1")
    for address in ("10.88.0.1", "10.88.0.77", "fd00:88::1"):
        assert network.ping("one", address), address
    assert result["dns"] == json.loads(json.dumps(IPAM["dns"]))
    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("STATUS", "one")
    network.succeed("DEL", "one", prevResult=result)
    assert network.node.ip("link", netns=network.namespace("one"))[-1]["ifname"] == "lo"


def test_our_static_serves_the_references_bridge(network: Network, tmp_path: Path) -> None:
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    (mixed := tmp_path / "mixed").mkdir()
    (mixed / "bridge").symlink_to(REFERENCE_BIN_DIR / "bridge")
    (mixed / "static").symlink_to(network.bin_dir / "static")
    theirs = Network(network.node, mixed, network.config | {"cniVersion": "1.0.0"})

    result = theirs.add("one")

    assert theirs.addresses("one") == ["10.88.0.5", "fd00:88::5"]
    theirs.succeed("CHECK", "one", prevResult=result)
    network.succeed("CHECK", "one", prevResult=result, cniVersion="1.0.0")
    network.succeed("DEL", "one", prevResult=result, cniVersion="1.0.0")
