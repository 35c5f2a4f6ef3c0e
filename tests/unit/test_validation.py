"""What `cni-harness validate` says of the keys and values of plugins."""

import json
from typing import Any

import pytest

from harness.libcni.networks import parse_network_list
from harness.validation.validate import validate

HOST_LOCAL = {"type": "host-local", "ranges": [[{"subnet": "10.95.0.0/24"}]]}


def found(*plugins: object, **keys: object) -> tuple[list[str], list[str]]:
    """The problems and the warnings of a list whose plugins all speak its version."""
    document = {"cniVersion": "1.0.0", "name": "net", "plugins": plugins, **keys}
    warnings: list[str] = []
    network = parse_network_list(json.dumps(document).encode())
    return validate(network, lambda _: ["1.0.0"], warnings.append), warnings


def bridge(**keys: object) -> dict[str, Any]:
    return {"type": "bridge", "ipam": HOST_LOCAL, **keys}


def host_local(*ranges: object, **keys: object) -> dict[str, Any]:
    return {"type": "bridge", "ipam": {"type": "host-local", "ranges": list(ranges), **keys}}


@pytest.mark.parametrize(
    ("plugin", "where", "problem"),
    [
        (bridge(vlan=99999), ".vlan (bridge)", "expected a VLAN ID from 0 to 4094, got 99999"),
        (bridge(vlan=1.0), ".vlan (bridge)", "expected a VLAN ID from 0 to 4094, got 1.0"),
        (bridge(mtu=60), ".mtu (bridge)", 'expected 0 or an MTU from 68 to 65535 bytes, or "auto", got 60'),
        (bridge(mtu=-1), ".mtu (bridge)", 'expected 0 or an MTU from 68 to 65535 bytes, or "auto", got -1'),
        (bridge(isGateway="true"), ".isGateway (bridge)", 'expected true or false, got "true"'),
        (bridge(ISGATEWAY=1), ".isGateway (bridge)", "expected true or false, got 1"),
        (
            bridge(ipMasqBackend="ebtables"),
            ".ipMasqBackend (bridge)",
            'expected "nftables" or "iptables", got "ebtables"',
        ),
        (bridge(ipMasqExcept=["10.0.0.0/8", "x"]), ".ipMasqExcept[1] (bridge)", 'expected a CIDR, got "x"'),
        (
            bridge(ipMasqExcept=["::/0"]),
            ".ipMasqExcept[0] (bridge)",
            'expected a CIDR with a prefix length of at least 1, got "::/0"',
        ),
        (bridge(ipMasqExcept="10.0.0.0/8"), ".ipMasqExcept (bridge)", 'expected a list, got "10.0.0.0/8"'),
        (
            bridge(bridge="a-name-of-16-byt"),
            ".bridge (bridge)",
            'expected an interface name of at most 15 bytes, got "a-name-of-16-byt"',
        ),
        (
            bridge(vlanTrunk=[{"minID": 5}]),
            ".vlanTrunk[0] (bridge)",
            'expected minID and maxID together, got {"minID": 5}',
        ),
        (bridge(vlanTrunk=[{"minID": 9, "maxID": 3}]), ".vlanTrunk[0] (bridge)", "minID 9 is above maxID 3"),
        (bridge(vlanTrunk=[{"id": 4095}]), ".vlanTrunk[0].id (bridge)", "expected a VLAN ID from 1 to 4094, got 4095"),
        (
            bridge(hairpinMode=True, promiscMode=True),
            " (bridge)",
            "hairpinMode: true and promiscMode: true exclude each other",
        ),
        (
            bridge(disableContainerInterface=True),
            " (bridge)",
            "disableContainerInterface: true and ipam.type exclude each other",
        ),
        ({"type": "noop", "debugFile": 3}, ".debugFile (noop)", "expected a string, got 3"),
        (
            host_local([{"subnet": "10.95.0.0/33"}]),
            ".ipam.ranges[0][0].subnet (bridge)",
            'expected a CIDR, got "10.95.0.0/33"',
        ),
        (
            host_local([{"subnet": "10.95.0.300/24"}]),
            ".ipam.ranges[0][0].subnet (bridge)",
            'expected a CIDR, got "10.95.0.300/24"',
        ),
        (
            host_local([{"subnet": "10.95.0.0/24", "gateway": "10.95.0"}]),
            ".ipam.ranges[0][0].gateway (bridge)",
            'expected an IP address, got "10.95.0"',
        ),
        (host_local([{"gateway": "10.95.0.1"}]), ".ipam.ranges[0][0].subnet (bridge)", "required key is missing"),
        (host_local([]), ".ipam.ranges[0] (bridge)", "expected a list of at least one range, got []"),
        (
            host_local([{"subnet": "10.95.0.0/24"}], routes=[{"dst": "default"}]),
            ".ipam.routes[0].dst (bridge)",
            'expected a CIDR, got "default"',
        ),
        (
            host_local([{"subnet": "10.95.0.0/24"}], statusFailsWhenFull="yes"),
            ".ipam.statusFailsWhenFull (bridge)",
            'expected true or false, got "yes"',
        ),
        (host_local(), ".ipam (host-local)", "there are no addresses: expected ranges or subnet"),
        (
            host_local([{"subnet": "10.95.0.7/24"}]),
            ".ipam.ranges[0][0].subnet (host-local)",
            "10.95.0.7/24 has host bits, the network is 10.95.0.0/24",
        ),
        (
            host_local([{"subnet": "10.95.0.0/31"}]),
            ".ipam.ranges[0][0].subnet (host-local)",
            "10.95.0.0/31 is too small to allocate from",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24", "rangeStart": "10.96.0.1"}]),
            ".ipam.ranges[0][0].rangeStart (host-local)",
            "10.96.0.1 is outside of the subnet 10.95.0.0/24",
        ),
        (
            host_local([{"Subnet": "10.95.0.0/24", "RangeEnd": "10.96.0.1"}]),
            ".ipam.ranges[0][0].rangeEnd (host-local)",
            "10.96.0.1 is outside of the subnet 10.95.0.0/24",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24", "rangeStart": "10.95.0.9", "rangeEnd": "10.95.0.4"}]),
            ".ipam.ranges[0][0] (host-local)",
            "the range ends at 10.95.0.4, before its start 10.95.0.9",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24", "gateway": "fd00::1"}]),
            ".ipam.ranges[0][0].gateway (host-local)",
            "fd00::1 is not of the family of the subnet 10.95.0.0/24",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24"}, {"subnet": "fd00::/64"}]),
            ".ipam.ranges[0] (host-local)",
            "one range set has IPv4 and IPv6 subnets: 10.95.0.0/24 and fd00::/64",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24"}], [{"subnet": "10.95.0.0/25"}]),
            ".ipam.ranges[1][0] (host-local)",
            "10.95.0.1-10.95.0.126 overlaps with 10.95.0.1-10.95.0.254 of plugins[0].ipam.ranges[0][0]",
        ),
        (
            host_local([{"subnet": "10.95.0.0/24"}], subnet="10.95.0.0/16"),
            ".ipam.ranges[0][0] (host-local)",
            "10.95.0.1-10.95.0.254 overlaps with 10.95.0.1-10.95.255.254 of plugins[0].ipam",
        ),
        (
            {"type": "host-local", "ipam": {"type": "host-local", "subnet": "10.95.0.0/33"}},
            ".ipam.subnet (host-local)",
            'expected a CIDR, got "10.95.0.0/33"',
        ),
        ({"type": "host-local"}, ".ipam (host-local)", "required key is missing"),
    ],
)
def test_bad_value_is_a_problem_that_names_key_and_value(plugin: dict[str, Any], where: str, problem: str) -> None:
    assert found(plugin) == ([f"plugins[0]{where}: {problem}"], [])


@pytest.mark.parametrize(
    ("plugin", "where", "warning"),
    [
        (bridge(ipMask=True), ".ipMask (bridge)", 'unknown key, its value is true; did you mean "ipMasq"?'),
        (bridge(isGatway=True), ".isGatway (bridge)", 'unknown key, its value is true; did you mean "isGateway"?'),
        (
            bridge(vlanTrunk=[{"idd": 7}]),
            ".vlanTrunk[0].idd (bridge)",
            'unknown key, its value is 7; did you mean "id"?',
        ),
        (bridge(quite="other"), ".quite (bridge)", 'unknown key, its value is "other"'),
        (
            host_local([{"subnet": "10.95.0.0/24", "start": 1}]),
            ".ipam.ranges[0][0].start (bridge)",
            'unknown key, its value is 1; did you mean "rangeStart"?',
        ),
        (
            host_local([{"subnet": "10.95.0.0/24"}], datadir="x", dataDirs="y"),
            ".ipam.dataDirs (bridge)",
            'unknown key, its value is "y"; did you mean "dataDir"?',
        ),
        (
            host_local([{"subnet": "10.95.0.0/24", "gateway": "10.96.0.1"}]),
            ".ipam.ranges[0][0].gateway (host-local)",
            "10.96.0.1 is outside of the subnet 10.95.0.0/24",
        ),
    ],
)
def test_suspicious_keys_are_warnings_and_no_problems(plugin: dict[str, Any], where: str, warning: str) -> None:
    assert found(plugin) == ([], [f"plugins[0]{where}: {warning}"])


@pytest.mark.parametrize(
    "plugin",
    [
        bridge(VLAN=7, IsGateway=True, mtu=None, IPMASQ=None, ipMasqBackend=""),
        bridge(ipMasq=True, ipMasqExcept=["10.0.0.0/8", "fd00::/8"]),
        bridge(ipMasqExcept=None),
        bridge(vlan=4094, mtu=65535, vlanTrunk=[{"id": 1}, {"minID": 2, "maxID": 2}]),
        bridge(**{"$comment": "x", "_note": "y", "//": "z"}),
        {"type": "bridge", "ipam": {}},
        {"type": "bridge"},
        {"type": "bridge", "capabilities": {"ipRanges": True}, "ipam": {"type": "host-local"}},
        {"type": "bridge", "ipam": {"type": "dhcp", "daemonSocketPath": "/run/x", "subnet": 3}},
        host_local([{"subnet": "10.95.0.0/24", "rangeStart": "", "gateway": ""}], [{"subnet": "fd00::/64"}]),
        host_local([{"subnet": "10.95.0.0/30", "rangeEnd": "10.95.0.3"}]),
        {"type": "calico", "ipMask": True, "vlan": 99999, "mtu": {"x": []}},
        {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True, "conditionsV4": ["-s", "x"]},
    ],
)
def test_valid_configurations_have_no_problems(plugin: dict[str, Any]) -> None:
    assert found(plugin) == ([], [])


def test_unknown_key_of_a_list() -> None:
    problems, warnings = found(bridge(), disableGc=True, disablCheck=True, **{"$schema": "conflist.schema.json"})

    assert problems == []
    assert warnings == [
        'disableGc: the key is ignored, "disableGC" was meant',
        'disablCheck: unknown key, its value is true; did you mean "disableCheck"?',
    ]


def test_conditional_schemas_ignore_the_case_of_keys() -> None:
    problems, warnings = found({"Type": "bridge", "IPAM": {"TYPE": "host-local", "SUBNET": "10.95.0.0/33", "rnges": 1}})

    assert problems == ['plugins[0].ipam.subnet (bridge): expected a CIDR, got "10.95.0.0/33"']
    assert warnings == ['plugins[0].ipam.rnges (bridge): unknown key, its value is 1; did you mean "ranges"?']


def test_free_section_may_be_deep() -> None:
    deep: object = None
    for _ in range(400):
        deep = {"a": [deep]}

    assert found(bridge(args={"cni": deep}))[0] == []
    assert found({"type": "calico", "args": {"cni": deep}, "policy": deep})[0] == []


def test_capability_that_is_null_is_absent() -> None:
    assert found(bridge(capabilities={"mac": None, "ips": True})) == ([], [])
