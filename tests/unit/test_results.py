"""Results in the shapes of the seven versions, written and read, and next to those of the reference."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from skel import DNS, SUPPORTED, CniError, Interface, IPConfig, Result, Route
from skel.versions import at_least
from tests.unit.sample_plugin import Sample, configuration, sample_result

REFERENCE = Path("/usr/lib/cni/host-local")

DNS_JSON = (
    '"dns": {"nameservers": ["192.0.2.53"], "domain": "example.com", "search": ["example.com"], "options": ["ndots:5"]}'
)
ROUTES_JSON = (
    '"routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "::/0"}, {"dst": "192.0.2.0/24", '
    '"mtu": 1400, "advmss": 1360, "priority": 100, "table": 0, "scope": 253}]'
)
SHAPE_02 = (
    '{"cniVersion": "%s", "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1", '
    '"routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "192.0.2.0/24"}]}, '
    '"ip6": {"ip": "fd00:1::5/64", "gateway": "fd00:1::1", "routes": [{"dst": "::/0"}]}, ' + DNS_JSON + "}\n"
)
SHAPE_04 = (
    '{"cniVersion": "%s", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:01"}, '
    '{"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod1"}], '
    '"ips": [{"version": "4", "address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1}, '
    '{"version": "6", "address": "fd00:1::5/64", "gateway": "fd00:1::1", "interface": 1}], '
    + ROUTES_JSON
    + ", "
    + DNS_JSON
    + "}\n"
)
SHAPE_10 = (
    '{"cniVersion": "%s", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:01"}, '
    '{"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod1"}], '
    '"ips": [{"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1}, '
    '{"address": "fd00:1::5/64", "gateway": "fd00:1::1", "interface": 1}], ' + ROUTES_JSON + ", " + DNS_JSON + "}\n"
)
SHAPE_11 = (
    '{"cniVersion": "%s", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:01", "mtu": 1500}, '
    '{"name": "eth0", "mac": "02:00:00:00:00:02", "mtu": 1400, "sandbox": "/run/netns/pod1"}], '
    '"ips": [{"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1}, '
    '{"address": "fd00:1::5/64", "gateway": "fd00:1::1", "interface": 1}], ' + ROUTES_JSON + ", " + DNS_JSON + "}\n"
)
SHAPES = {
    "0.1.0": SHAPE_02,
    "0.2.0": SHAPE_02,
    "0.3.0": SHAPE_04,
    "0.3.1": SHAPE_04,
    "0.4.0": SHAPE_04,
    "1.0.0": SHAPE_10,
    "1.1.0": SHAPE_11,
}


def sample_of_version(version: str) -> Result:
    """What of the sample result a configuration of `version` can say."""
    result = sample_result()
    if not at_least(version, "1.1.0"):
        for interface in result.interfaces:
            interface.mtu = 0
    if not at_least(version, "0.3.0"):
        result.interfaces = []
        for ip in result.ips:
            ip.interface = None
        four, six, special = result.routes
        result.routes = [four, Route(dst=special.dst), six]
    return result


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_result_is_printed_in_the_configurations_version_to_the_byte(tmp_path: Path, version: str) -> None:
    outcome = Sample(tmp_path).run("ADD", configuration(cniVersion=version))

    assert outcome.stdout.decode() == SHAPES[version] % version


@pytest.mark.parametrize("version", SUPPORTED)
def test_each_version_round_trips(version: str) -> None:
    shape = json.loads(json.dumps(sample_result().encode_as(version)))

    read = Result.decode_any(shape)

    assert read == sample_of_version(version)
    assert read.encode_as(version) == shape


@pytest.mark.parametrize("later", SUPPORTED)
@pytest.mark.parametrize("earlier", SUPPORTED)
def test_result_survives_conversion_to_a_later_version_and_back(earlier: str, later: str) -> None:
    """Both directions: up and down again, and whatever is printed between two equal versions."""
    said = min((earlier, later), key=SUPPORTED.index)

    between = Result.decode_any(sample_result().encode_as(earlier)).encode_as(later)

    assert Result.decode_any(between) == sample_of_version(said)
    assert between["cniVersion"] == later
    assert Result.decode_any(between).encode_as(earlier) == sample_of_version(said).encode_as(earlier)


@pytest.mark.parametrize("version", SUPPORTED)
def test_prev_result_is_read_in_any_version(tmp_path: Path, version: str) -> None:
    """Also in one that is not the configuration's: a chain's delegates print any of them."""
    given = sample_result().encode_as(version)

    args = Sample(tmp_path).accepted("ADD", configuration(prevResult=given))

    assert args.prev_result == sample_of_version(version)


@pytest.mark.parametrize("version", SUPPORTED)
def test_keys_of_an_interface_that_came_with_1_1_0_are_in_no_earlier_result(version: str) -> None:
    link = Interface(name="net0", mtu=9000, socket_path="/run/vhost.sock", pci_id="0000:01:00.0")
    printed = Result(interfaces=[link]).encode_as(version)

    expected = {"1.1.0": {"name", "mtu", "socketPath", "pciID"}, "0.1.0": set(), "0.2.0": set()}
    interfaces = printed.get("interfaces", [{}])
    assert isinstance(interfaces, list)
    assert set(interfaces[0]) == expected.get(version, {"name"})


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_old_versions_keep_the_first_address_of_a_family(version: str) -> None:
    result = Result(
        ips=[
            IPConfig.decode({"address": address})
            for address in ("fd00:1::5/64", "10.1.0.5/16", "10.2.0.5/16", "fd00:2::5/64")
        ]
    )

    assert result.encode_as(version) == {
        "cniVersion": version,
        "ip4": {"ip": "10.1.0.5/16"},
        "ip6": {"ip": "fd00:1::5/64"},
    }


def test_old_versions_drop_the_routes_of_a_family_without_address() -> None:
    result = Result(
        ips=[IPConfig.decode({"address": "10.1.0.5/16"})],
        routes=[Route.decode({"dst": "::/0"}), Route.decode({"dst": "0.0.0.0/0"})],
    )

    assert result.encode_as("0.2.0")["ip4"] == {"ip": "10.1.0.5/16", "routes": [{"dst": "0.0.0.0/0"}]}
    assert "ip6" not in result.encode_as("0.2.0")


@pytest.mark.parametrize("version", SUPPORTED)
def test_an_empty_result_is_its_version_alone(version: str) -> None:
    assert Result().encode_as(version) == {"cniVersion": version}


def test_zero_is_kept_for_keys_that_differ_when_absent() -> None:
    """`interface: 0` is the first interface, `table: 0` and `scope: 0` the kernel's unspecified and global."""
    result = Result(
        interfaces=[Interface(name="eth0")],
        ips=[IPConfig.decode({"address": "10.1.0.5/16", "interface": 0})],
        routes=[Route.decode({"dst": "0.0.0.0/0", "table": 0, "scope": 0})],
    )

    assert result.encode_as("1.1.0") == {
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}],
        "ips": [{"address": "10.1.0.5/16", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0", "table": 0, "scope": 0}],
    }


def test_keys_of_1_1_0_are_written_and_read() -> None:
    given = {"name": "eth0", "mtu": 9000, "socketPath": "/run/vhost.sock", "pciID": "0000:01:00.0"}

    interface = Interface.decode(given)

    assert (interface.mtu, interface.socket_path, interface.pci_id) == (9000, "/run/vhost.sock", "0000:01:00.0")
    assert interface.encode() == given


def test_prev_result_of_podman_is_read() -> None:
    """Podman 4.3 with cniVersion 0.4.0: an empty dns, the address's version, and nothing that is null matters."""
    given: dict[str, object] = {
        "cniVersion": "0.4.0",
        "dns": {},
        "interfaces": [{"mac": "02:00:00:00:00:02", "name": "eth0", "sandbox": "/run/netns/x"}],
        "ips": [{"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 0, "version": "4"}],
        "routes": None,
    }

    result = Result.decode_any(given)

    assert not result.dns
    assert result.routes == []
    assert result.encode_as("0.4.0") == {key: value for key, value in given.items() if value}


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("IPs", [{"Address": "10.1.0.5/16", "GATEWAY": ""}]),
        ("ip4", None),
    ],
)
def test_keys_are_read_without_regard_to_case_and_null_is_absent(spelling: str, value: object) -> None:
    result = Result.decode_any({spelling: value, "Routes": [{"Dst": "0.0.0.0/0", "gw": None}]})

    assert [str(ip.address) for ip in result.ips] == (["10.1.0.5/16"] if value else [])
    assert [route.encode() for route in result.routes] == [{"dst": "0.0.0.0/0"}]


def test_a_mapped_address_is_the_ipv4_address_that_it_stands_for() -> None:
    """Go keeps both alike in 16 bytes and prints them so."""
    ip = IPConfig.decode({"address": "10.1.0.5/16", "gateway": "::ffff:10.1.0.1"})

    assert ip.encode() == {"address": "10.1.0.5/16", "gateway": "10.1.0.1"}


def test_a_broken_part_names_its_path() -> None:
    with pytest.raises(CniError, match=r'prevResult\.routes\[1\]\.gw: expected an IP address, got "10\.1"'):
        Result.decode_any({"routes": [{"dst": "0.0.0.0/0"}, {"dst": "0.0.0.0/0", "gw": "10.1"}]})


def reference_result(folder: Path, version: str) -> dict[str, Any]:
    """What Debian's host-local prints; it writes below `folder` and asks the kernel for nothing."""
    config = configuration(
        cniVersion=version,
        ipam={
            "type": "host-local",
            "dataDir": str(folder),
            "ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "fd00:1::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "fd00:1::1"}],
        },
    )
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "pod-1",
        "CNI_NETNS": "/run/netns/not-there",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": os.fspath(REFERENCE.parent),
    }
    ran = subprocess.run([REFERENCE], env=environ, input=json.dumps(config).encode(), capture_output=True, check=True)
    printed: dict[str, Any] = json.loads(ran.stdout)
    return printed


@pytest.mark.skipif(not REFERENCE.exists(), reason="Debian's containernetworking-plugins is not installed")
@pytest.mark.parametrize("version", [version for version in SUPPORTED if version != "1.1.0"])
def test_results_equal_results_of_the_reference(tmp_path: Path, version: str) -> None:
    """But for one key: Go cannot leave out an empty `dns`, which SPEC.md has as optional; nobody reads it as more."""
    printed = reference_result(tmp_path, version)
    assert printed.pop("dns") == {}

    assert Result.decode_any(printed).encode_as(version) == printed


@pytest.mark.skipif(not REFERENCE.exists(), reason="Debian's containernetworking-plugins is not installed")
def test_the_reference_plugins_say_the_same_in_every_version(tmp_path: Path) -> None:
    results = [
        Result.decode_any(reference_result(tmp_path / version, version)) for version in SUPPORTED if version != "1.1.0"
    ]

    assert results == [results[0]] * len(results)
    assert results[0].dns == DNS()
