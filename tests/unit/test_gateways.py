"""Which gateways a bridge holds for the addresses that an IPAM plugin reserved."""

import pytest

from plugins.attach.gateways import set_gateways
from skel import CniError, IPConfig, address, cidr


def config(reserved: str, gateway: str = "") -> IPConfig:
    return IPConfig(address=cidr(reserved, ""), gateway=address(gateway, "") if gateway else None)


def test_missing_gateway_is_the_first_address_of_the_network() -> None:
    ips = [config("192.0.2.5/24"), config("192.0.2.6/24", "192.0.2.254"), config("2001:db8::5/64")]

    held = set_gateways(ips)
    assert [str(ip.gateway) for ip in ips] == ["192.0.2.1", "192.0.2.254", "2001:db8::1"]
    assert list(map(str, held)) == ["192.0.2.1/24", "192.0.2.254/24", "2001:db8::1/64"]


@pytest.mark.parametrize("last", ["255.255.255.255/32", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"])
def test_last_address_without_gateway_is_an_error(last: str) -> None:
    with pytest.raises(CniError) as raised:
        set_gateways([config(last)])

    assert (raised.value.code, raised.value.msg) == (7, f"ipam: {last} has no gateway, and no address for one")


@pytest.mark.parametrize(("reserved", "gateway"), [("192.0.2.5/24", "2001:db8::1"), ("2001:db8::5/64", "192.0.2.1")])
def test_a_gateway_of_another_family_is_refused(reserved: str, gateway: str) -> None:
    with pytest.raises(CniError) as raised:
        set_gateways([config(reserved, gateway)])

    assert raised.value.code == 7
    assert raised.value.msg == f"ipam: {reserved} has {gateway} for its gateway, an address of another family"
