"""Addresses that were asked for: three places to ask, with or without a prefix length."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.host_local import HostLocal


@pytest.fixture
def net(tmp_path: Path) -> HostLocal:
    return HostLocal(tmp_path / "networks")


class _Asked:
    """Asks in one of the three places."""

    def __init__(self, net: HostLocal, place: str) -> None:
        self.net = net
        self.place = place

    def add(self, *addresses: str, container_id: str = "pod") -> Any:
        if self.place == "CNI_ARGS":
            return self.net.run("ADD", container_id, args=f"IgnoreUnknown=1;IP={addresses[0]};K8S_POD_NAME=x")
        if self.place == "args":
            self.net.config["args"] = {"cni": {"ips": list(addresses)}}
            return self.net.run("ADD", container_id)
        return self.net.run("ADD", container_id, runtimeConfig={"ips": list(addresses)})


@pytest.fixture(params=["CNI_ARGS", "args", "runtimeConfig"])
def asked(request: pytest.FixtureRequest, net: HostLocal) -> _Asked:
    return _Asked(net, request.param)


@pytest.mark.parametrize("address", ["192.0.2.88", "192.0.2.88/24", "192.0.2.88/32"])
def test_the_address_asked_for_is_given(asked: _Asked, address: str) -> None:
    ran = asked.add(address)

    assert ran.addresses == ["192.0.2.88", "2001:db8::2"]
    assert ran.printed["ips"][0]["address"] == "192.0.2.88/24"


def test_ipv6_too_in_any_spelling(asked: _Asked) -> None:
    assert asked.add("2001:DB8:0::0088/64").addresses == ["192.0.2.2", "2001:db8::88"]


def test_round_robin_continues_from_a_requested_address(asked: _Asked) -> None:
    asked.add("192.0.2.88")
    asked.net.config.pop("args", None)

    assert asked.net.add("next") == ["192.0.2.89", "2001:db8::3"]


def test_taken_address_is_refused_and_nothing_is_reserved(asked: _Asked) -> None:
    asked.net.write("192.0.2.88", "other\r\neth0")

    ran = asked.add("192.0.2.88")

    assert ran.printed["code"] == 11
    assert ran.printed["msg"].startswith("requested address 192.0.2.88 is not available in ipam.ranges[0]")
    assert asked.net.reservations() == {"192.0.2.88": "other\r\neth0"}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("192.0.2.1", 'expected an address that is not the gateway, got "192.0.2.1"'),
        ("2001:db8::1/64", 'expected an address that is not the gateway, got "2001:db8::1"'),
        ("198.51.100.9", 'expected an address of the network\'s ranges, got "198.51.100.9"'),
        ("192.0.2.255", 'expected an address of the network\'s ranges, got "192.0.2.255"'),
    ],
)
def test_address_outside_the_ranges_is_refused_before_anything_is_made(
    asked: _Asked, address: str, message: str
) -> None:
    ran = asked.add(address)

    assert ran.printed["code"] == 7
    assert ran.printed["msg"].endswith(message)
    assert not asked.net.data_dir.exists()


@pytest.mark.parametrize("address", ["192.0.2", "192.0.2.256", "192.0.2.5/33", "pod", "192.0.2.5/", "fe80::1%eth0"])
def test_invalid_address_is_refused_with_its_place_and_value(asked: _Asked, address: str) -> None:
    printed = asked.add(address).printed

    place = {"CNI_ARGS": "CNI_ARGS: IP", "args": "args.cni.ips[0]", "runtimeConfig": "runtimeConfig.ips[0]"}
    assert printed["code"] == (4 if asked.place == "CNI_ARGS" else 7)
    assert printed["msg"] == (
        f'{place[asked.place]}: expected an IP address, with or without a prefix, got "{address}"'
    )


def test_one_of_each_family(net: HostLocal) -> None:
    assert net.add(runtimeConfig={"ips": ["2001:db8::77", "192.0.2.77"]}) == ["192.0.2.77", "2001:db8::77"]


def test_address_requested_twice_is_given_once(net: HostLocal) -> None:
    assert net.add(args="IP=192.0.2.77", runtimeConfig={"ips": ["192.0.2.77/24"]}) == ["192.0.2.77", "2001:db8::2"]


def test_second_requested_address_of_a_range_set_is_refused(net: HostLocal) -> None:
    code, message = net.fail("ADD", args="IP=192.0.2.77", runtimeConfig={"ips": ["192.0.2.78"]})

    assert code == 7
    assert message == (
        'runtimeConfig.ips[0]: expected one address of range set ipam.ranges[0], beside 192.0.2.77, got "192.0.2.78"'
    )
    assert not net.data_dir.exists()


@pytest.mark.parametrize("ignored", ["192.0.2.78", "nonsense"])
def test_addresses_in_args_win_over_cni_args(net: HostLocal, ignored: str) -> None:
    net.config["args"] = {"cni": {"ips": ["192.0.2.77"]}}

    assert net.add(args=f"IP={ignored}") == ["192.0.2.77", "2001:db8::2"]


def test_an_empty_request_is_none(net: HostLocal) -> None:
    assert net.add(args="IP=") == ["192.0.2.2", "2001:db8::2"]


def test_other_arguments_need_ignore_unknown(net: HostLocal) -> None:
    assert net.fail("ADD", args="IP=192.0.2.5;K8S_POD_NAME=x") == (
        4,
        "CNI_ARGS: unknown arguments: K8S_POD_NAME",
    )


def test_the_interface_plugin_s_mac_is_let_through(net: HostLocal) -> None:
    assert net.add(args="IP=192.0.2.5;MAC=02:00:00:00:00:01")[0] == "192.0.2.5"


def test_a_request_out_of_the_ranges_does_not_keep_a_pod_from_going(net: HostLocal) -> None:
    net.add()

    net.succeed("DEL", args="IP=nonsense", runtimeConfig={"ips": ["203.0.113.1"]})

    assert net.reservations() == {}


UNREADABLE = [
    ({"runtimeConfig": {"ips": ["10.1"]}}, "runtimeConfig.ips[0]: expected an IP address"),
    ({"runtimeConfig": {"ips": "192.0.2.5"}}, 'runtimeConfig.ips: expected a list, got "192.0.2.5"'),
    ({"runtimeConfig": {"ipRanges": [[{"subnet": "10.1"}]]}}, "runtimeConfig.ipRanges[0][0].subnet: expected a CIDR"),
    ({"runtimeConfig": {"ipRanges": {}}}, "runtimeConfig.ipRanges: expected a list, got {}"),
    ({"runtimeConfig": []}, "runtimeConfig: expected an object, got []"),
    (
        {"args": {"cni": {"ips": ["pod"]}}},
        'args.cni.ips[0]: expected an IP address, with or without a prefix, got "pod"',
    ),
    ({"args": {"cni": 5}}, "args.cni: expected an object, got 5"),
    ({"args": "IP=192.0.2.5"}, 'args: expected an object, got "IP=192.0.2.5"'),
]


@pytest.mark.parametrize(("unreadable", "message"), UNREADABLE)
def test_unreadable_requests_are_refused_by_add_alone(net: HostLocal, unreadable: dict[str, Any], message: str) -> None:
    net.add()
    net.config |= unreadable

    code, said = net.fail("ADD", "other")
    assert code == 7
    assert said.startswith(message)

    net.succeed("DEL", "other")
    net.config["cni.dev/valid-attachments"] = [{"containerID": "pod", "ifname": "eth0"}]
    net.succeed("GC")
    assert set(net.reservations()) == {"192.0.2.2", "2001:db8::2"}
    net.succeed("DEL")
    assert net.reservations() == {}


def test_check_reads_no_requests(net: HostLocal) -> None:
    net.add()
    net.config |= {"runtimeConfig": {"ips": ["10.1"]}, "args": {"cni": {"ips": "10.1"}}}

    net.succeed("CHECK")
